"""The benchmark's page, and stock screenshots of it.

Flows in: a way to execute a cell in a session. Flows out: what one screenshot takes, in milliseconds, ours and stock. Decided
here: the page, which has text, a table, fields, shadows and gradients; and that the stock way runs in the same sandbox on
the same screen: a stock ipykernel over raw jupyter_client, in which PyAutoGUI starts `scrot`, reads its file with Pillow,
and IPython shows the picture. It pays for no HTTP; ours does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

OURS: Final = "display(pyautogui.screenshot())"
_STOCK: Final = "import pyautogui; display(pyautogui.screenshot())"
_PAGE: Final = """<!doctype html><meta charset=utf-8><style>body{font:15px/1.45 sans-serif;margin:0;background:#f6f7f9;color:#222}
header{background:linear-gradient(90deg,#1f4e79,#4a90c2);color:white;padding:18px 28px;font-size:24px}
main{display:grid;grid-template-columns:2fr 1fr;gap:24px;padding:20px 28px}
.card{background:white;border:1px solid #d5dbe1;border-radius:8px;padding:14px 18px;box-shadow:0 1px 3px #0002}
table{border-collapse:collapse;width:100%;font-size:13px}td{border-bottom:1px solid #e3e7eb;padding:5px 8px}
button{background:#1f6fb2;color:white;border:0;border-radius:5px;padding:8px 16px;font-size:14px}
.photo{height:160px;border-radius:8px;background:radial-gradient(circle at 30% 40%,#f7c873,#c0392b 40%,#2c3e50 75%)}</style>
<header>Quarterly expenses</header><main><div class=card><h3>Open items</h3><table></table><p><button>Submit</button></div>
<div class=card><div class=photo></div><h3>Notice board</h3><p>Receipts older than ninety days need the approval of a manager.
Please attach a scan of each receipt, and name the project that it was for.<p><label>Search <input value=tickets></label></div>
</main><script>const vendors = ['Northwind Traders', 'Contoso Rail', 'Fabrikam Hotels', 'Adatum Taxi', 'Litware Books'];
document.querySelector('table').innerHTML = [...Array(17).keys()].map(i => `<tr><td>2026-03-${10 + i}<td>${vendors[i % 5]}
<td>Travel<td>${(37.5 * (i + 3)).toFixed(2)} EUR<td>${i % 3 ? 'Approved' : 'Waiting'}`).join('')</script>"""
_START: Final = """
import json, os, shutil, subprocess, sys
from pathlib import Path
await page.set_content({page})
screen.settle()
Path("stock.py").write_text({program})
def _stock(rounds):
    _process.stdin.write(b"%d\\n" % rounds)
    return _process.stdout.readline().decode()
if shutil.which("scrot"):
    _process = subprocess.Popen(
        [sys.executable, "-P", "stock.py", {code}], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
        env={{**os.environ, "XDG_SESSION_TYPE": "x11"}}, start_new_session=True)
    _stock(3)
    log("ready")
else:
    log("no scrot")
"""


def begin(execute: Callable[[str], str]) -> bool:
    """Show the page and start the stock kernel beside; return whether there is one: without scrot there is not.

    Args:
        execute: Executes a cell in Python and returns its text.
    """
    program = Path(__file__).with_name("stock.py").read_text(encoding="utf-8")
    said = execute(_START.format(page=repr(_PAGE), program=repr(program), code=repr(_STOCK)))
    return said.strip().endswith("ready")


def stock(execute: Callable[[str], str], rounds: int) -> list[float]:
    """Return what each of some stock screenshots took, in milliseconds."""
    return [seconds * 1000 for seconds in json.loads(execute(f"log(_stock({rounds}))"))]


def end(execute: Callable[[str], str]) -> None:
    """End the stock kernel."""
    execute("_process.stdin.close(); _process.wait(10)")
