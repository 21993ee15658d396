"""Secrets in a real sandbox: typed into fields of every kind, shown by no picture, and found in nothing that comes out."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.engines import needs
from tests.waiting import GUARD_S

from cellwright.record import read_run
from cellwright.record.records import Egress, Note
from cellwright.sandbox.base import SecretSpec, Spec
from cellwright.session import Session
from cellwright_kernel.wire import Cell, Event, OutputEvent, PieceEvent, Text

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

TARGETS = Path(__file__).parents[1] / "targets"
ONE, OTHER = "Zebra-7!x+Y/z", "qWiLm.4%u=K&o"
"""Two values of one length; two pictures that are the same show neither."""
FORM = """<title>form</title><style>input, textarea, div { font: 30px monospace; width: 600px; border: 1px solid }</style>
<input id=text><input id=password type=password><textarea id=area></textarea><div id=editable contenteditable></div>
<button id=button>B</button><input id=fixed readonly>"""


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        frame = f"<title>outer</title><iframe id=inner width=900 height=600 src='http://localhost:{self.server.server_port}/form'>"
        body = (frame if self.path == "/outer" else FORM).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        """Say what came in a header of a request that came whole."""
        length = int(self.headers["Content-Length"] or 0)
        if len(self.rfile.read(length)) < length:
            return
        self.server.posted.append(self.headers.as_string())  # type: ignore[attr-defined]
        body = str(self.headers["X-Key"]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Say nothing."""


@pytest.fixture
def posted() -> list[str]:
    """The headers of what was posted to `pages`."""
    return []


@pytest.fixture
def pages(posted: list[str]) -> Iterator[int]:
    with serving(posted) as port:
        yield port


@pytest.fixture
def other_pages(posted: list[str]) -> Iterator[int]:
    with serving(posted) as port:
        yield port


@contextmanager
def serving(posted: list[str]) -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        server.posted = posted  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def everything_in(folder: Path) -> bytes:
    return b"\n".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


async def said(session: Session, code: str) -> str:
    cell: Cell = await session.execute(code)
    return cell.text


async def still_screen(session: Session) -> bytes:
    """A screenshot from outside, once two are the same: the browser's own buttons may still be fading."""
    async with asyncio.timeout(GUARD_S):
        before = await session.screenshot()
        while (now := await session.screenshot()) != before:
            before = now
            await asyncio.sleep(0.2)
    return now


def spec(*secrets: SecretSpec, allow: tuple[str, ...] = (), files: tuple[Path, ...] = ()) -> Spec:
    return Spec(secrets=secrets or (SecretSpec(name="ONE"), SecretSpec(name="OTHER")), allow=allow, files=files)


VALUES = {"ONE": ONE, "OTHER": OTHER}


@pytest.mark.parametrize("field", ["text", "password", "area", "editable"])
async def test_a_value_typed_into_a_page_arrives_and_is_in_no_picture(field: str) -> None:
    async with Session.open(spec(), secrets=VALUES) as session:
        look = '(await page.evaluate("[document.activeElement.value ?? document.activeElement.textContent]"))[0]'
        shots: list[list[bytes]] = []
        for name, value in VALUES.items():
            cell = await session.execute(
                f"await page.set_content({FORM!r}); await page.add_style_tag(content='* {{caret-color: transparent}}')\n"
                f"pyautogui.moveTo(5, 700); await page.click('#{field}')\n"
                f"secrets.type({name!r})\n"
                f"log({look}); log(len({look}))\n"
                "screen.settle(); display(screen.shot((0, 87, 1440, 500))); display(pyautogui.screenshot(region=(0, 87, 1440, 500)))\n"
                "display(await page.screenshot())"
            )
            assert cell.status == "ok", cell.text
            said_of_it = [output.text.strip() for output in cell.outputs[:2] if isinstance(output, Text)]
            assert said_of_it == [f"[secret {name}]", str(len(value))]
            shots.append([image.data for image in cell.images] + [await still_screen(session)])
        assert shots[0] == shots[1]
        assert len(set(shots[0])) == 3, "a part of the screen twice, the page, and all of the screen"
    assert not any(value.encode() in everything_in(session.run_dir) for value in VALUES.values())


async def test_a_field_that_has_the_focus_by_javascript_alone_gets_the_keyboard() -> None:
    async with Session.open(spec(), secrets=VALUES) as session:
        code = f"await page.set_content({FORM!r}); await page.focus('#text')\nsecrets.type('ONE')\nlog(await page.input_value('#text'))"
        assert await said(session, code) == "[secret ONE]"
        assert (
            await said(
                session, "pyautogui.hotkey('ctrl', 'l'); secrets.type('ONE'); log(len(await page.input_value('#text')))"
            )
            == "26"
        )
        two = "other = await context.new_page(); await other.set_content('<input id=a>'); await other.focus('#a')\n"
        told = await said(session, two + "pyautogui.hotkey('ctrl', 'l'); secrets.type('ONE')")
        assert "No field of a page has the keyboard" in told, "which of the two is meant, nobody knows"


async def test_a_field_that_takes_the_others_place_shows_nothing_either() -> None:
    async with Session.open(spec(), secrets=VALUES) as session:
        shots = []
        for name in VALUES:
            cell = await session.execute(
                f"await page.set_content({FORM!r}); await page.click('#password'); secrets.type({name!r})\n"
                "await page.evaluate(\"\"\"() => { const old = document.querySelector('#password'); old.type = 'text';"
                "old.removeAttribute('style'); const one = document.createElement('input'); one.value = old.value; old.after(one) }\"\"\")\n"
                "screen.settle(); pyautogui.moveTo(5, 700); display(await page.screenshot(caret='hide'))\n"
                'await page.evaluate("""() => { const old = document.querySelector(\'#password\'); const one = old.cloneNode();'
                'one.removeAttribute(\'style\'); one.value = old.value; old.replaceWith(one) }""")\n'
                "screen.settle(); display(await page.screenshot(caret='hide'))"
            )
            assert cell.status == "ok", cell.text
            shots.append([image.data for image in cell.images])
        assert shots[0] == shots[1]


@needs("podman")
async def test_an_engines_sandbox_types_as_well() -> None:
    async with Session.open(spec().model_copy(update={"backend": "podman"}), secrets=VALUES) as session:
        typed = f"await page.set_content({FORM!r}); await page.click('#text'); secrets.type('ONE')\nlog(await page.input_value('#text'))"
        assert await said(session, typed) == "[secret ONE]"


async def test_both_languages_can_type_and_javascript_is_told_why_not() -> None:
    async with Session.open(spec(), secrets=VALUES) as session:
        cell = await session.execute(
            f"await page.setContent({FORM!r}); await page.click('#text'); await secrets.type('ONE');\n"
            "console.log(await page.inputValue('#text'));\n"
            "await secrets.type('NONE').catch(e => console.log(e.message)); await secrets.type(3).catch(e => console.log(e.message));",
            language="javascript",
        )
        assert cell.text.splitlines() == [
            "[secret ONE]",
            "There is no secret 'NONE' in this session; there are: ONE, OTHER. Nothing was typed or given. Whoever starts the "
            "session gives one with `--secret NAME`.",
            "A secret is named by a string, not number. Nothing was typed or given.",
        ]


async def test_a_bound_secret_is_typed_into_its_hosts_pages_only(pages: int) -> None:
    mine = spec(
        SecretSpec(name="ONE", hosts=(f"localhost:{pages}",)), allow=(f"localhost:{pages}", f"127.0.0.1:{pages}")
    )
    async with Session.open(mine, secrets={"ONE": ONE}) as session:
        typed = "secrets.type('ONE'); log(await {}.input_value('#text'))"
        form = f"await page.goto('http://{{}}:{pages}/{{}}')\n"
        here = form.format("localhost", "form") + "await page.click('#text')\n" + typed.format("page")
        assert await said(session, here) == "[secret ONE]"
        there = form.format("127.0.0.1", "form") + "await page.click('#text')\n" + typed.format("page")
        refusal = (
            f"SecretError: The secret ONE is bound to localhost:{pages}, and typed into pages from there only. What has the "
            f"keyboard is a page of http://127.0.0.1:{pages}. Nothing was typed."
        )
        assert refusal in await said(session, there)
        assert await said(session, "log(repr(await page.input_value('#text')))") == "''"
        inner = (
            form.format("127.0.0.1", "outer")
            + "inner = page.frames[1]\nawait inner.click('#text')\n"
            + typed.format("inner")
        )
        assert await said(session, inner) == "[secret ONE]", "what counts is the frame that has the field"
        terminal = "import subprocess; p = subprocess.Popen(['xterm', '-T', 'other']); ui.wait('window', 'other'); screen.settle()\n"
        told = await said(session, terminal + "secrets.type('ONE')")
        assert (
            "What has the keyboard belongs to another program, or to a page without a host. Nothing was typed." in told
        )
        await session.execute("p.kill()")
    notes = [line.record for line in read_run(session.run_dir).lines if isinstance(line.record, Note)]
    assert [note.text.partition(":")[0] for note in notes if note.topic == "secret"] == [
        "The secret ONE was given to be typed into a page of http",
        "The use of a secret was refused",
        "The secret ONE was given to be typed into a page of http",
        "The use of a secret was refused",
    ]


@pytest.mark.parametrize(
    ("what", "why"), [("#button", "is <button>, which takes no text"), ("#fixed", "is <input>, which takes no text")]
)
async def test_nothing_is_typed_where_no_field_is(what: str, why: str) -> None:
    async with Session.open(spec(), secrets=VALUES) as session:
        told = await said(session, f"await page.set_content({FORM!r}); await page.click({what!r}); secrets.type('ONE')")
        assert why in told
        told = await said(
            session,
            "await page.evaluate('document.activeElement.blur()'); pyautogui.hotkey('ctrl', 'l'); secrets.type('ONE')",
        )
        assert "No field of a page has the keyboard; the browser's own address bar may" in told


@pytest.mark.parametrize(
    ("title", "command"),
    [
        ("tk", "[sys.executable, 'tk_text.py', 'typed']"),
        ("gtk text", "['/usr/bin/python3', 'gtk_text.py', 'typed']"),
        ("terminal", "['xterm', '-u8', '-T', 'terminal', '-e', 'sh', '-c', 'exec cat > typed']"),
    ],
)
async def test_in_other_programs_a_value_arrives_and_is_in_no_picture(title: str, command: str) -> None:
    files = (TARGETS / "tk_text.py", TARGETS / "gtk_text.py")
    async with Session.open(spec(files=files), secrets=VALUES) as session:
        shots = []
        for name in VALUES:
            cell = await session.execute(
                "import subprocess, sys, time, pathlib\n"
                f"program = subprocess.Popen({command})\n"
                f"box = ui.wait('window', {title!r}).box; screen.settle()\n"
                f"secrets.type({name!r}); pyautogui.press('enter')\n"
                "end = time.monotonic() + 5\n"
                "while '\\n' not in pathlib.Path('typed').read_text() and time.monotonic() < end: time.sleep(0.01)\n"
                "text = pathlib.Path('typed').read_text(); screen.settle()\n"
                "display(screen.shot()); log(text.strip()); log(len(set(screen.shot(box).getdata())))"
            )
            assert cell.status == "ok", cell.text
            logged = [output.text for output in cell.outputs if isinstance(output, Text) and output.source == "log"]
            assert logged[0] == f"[secret {name}]"
            shots.append((*(image.data for image in cell.images), logged[1]))
            await session.execute("program.kill(); program.wait(); pathlib.Path('typed').unlink(); screen.settle()")
        assert shots[0] == shots[1]


async def test_of_a_program_that_tells_where_its_field_is_only_that_is_covered() -> None:
    entries = """
import ctypes
gtk, V = ctypes.CDLL('libgtk-3.so.0'), ctypes.c_void_p
for name in ('gtk_window_new', 'gtk_entry_new', 'gtk_box_new'): getattr(gtk, name).restype = V
gtk.gtk_init(None, None)
window, box, entries = gtk.gtk_window_new(0), gtk.gtk_box_new(1, 20), [gtk.gtk_entry_new(), gtk.gtk_entry_new()]
for entry in entries: gtk.gtk_container_add(V(box), V(entry))
gtk.gtk_container_add(V(window), V(box)); gtk.gtk_window_set_title(V(window), b'entries')
gtk.gtk_widget_show_all(V(window)); gtk.gtk_main()
"""
    code = (
        f"import subprocess; program = subprocess.Popen(['/usr/bin/python3', '-c', {entries!r}])\n"
        "window = ui.wait('window', 'entries'); first, second = ui.find('textbox', window='entries')\n"
        "before = [screen.shot(field.box) for field in (first, second)]\n"
        "secrets.type('ONE'); pyautogui.press('tab'); pyautogui.write('plain text'); screen.settle()\n"
        "log({c for _, c in screen.shot(first.box).getcolors()}); log(screen.shot(second.box).getcolors() != before[1].getcolors())\n"
        "log([field.value for field in ui.find('textbox', window='entries')])"
    )
    async with Session.open(spec(), secrets=VALUES) as session:
        cell = await session.execute(code)
        assert cell.text.splitlines() == ["{(128, 128, 128)}", "True", "['[secret ONE]', 'plain text']"]
        await session.execute("program.kill()")


async def test_what_code_knows_of_a_value_is_in_nothing_that_comes_out() -> None:
    events: list[Event] = []
    code = f"""
await page.set_content({FORM!r}); await page.click('#text'); secrets.type('ONE'); value = await page.input_value('#text')
import base64, json, sys, time, urllib.parse, threading
print(value, urllib.parse.quote(value), urllib.parse.quote_plus(value).lower(), json.dumps(value), repr(value))
print(base64.b64encode(value.encode()).decode(), base64.b64encode(b'x' + value.encode()).decode(), base64.b64encode(b'xy' + value.encode()).decode())
sys.stdout.write(value[:5]); sys.stdout.flush(); time.sleep(0.3); sys.stdout.write(value[5:]); sys.stdout.flush(); time.sleep(0.3)
print('x' * 20000); print('y' * 5795 + value + 'z' * 20000)
threading.Timer(0.5, lambda: print('late', value)).start()
open(urllib.parse.quote(value, safe=''), 'w')
log({{'value': value}}); sys.stderr.write(value)
raise ValueError(value)
"""
    async with Session.open(spec(), secrets=VALUES) as session:
        cell = await session.execute(code, on_event=events.append)
        assert cell.status == "error"
        late = await session.execute("time.sleep(1)")
        names = [file.path for file in await session.list_files()]
        told = (
            cell.model_dump_json() + late.model_dump_json() + repr(names) + "".join(e.model_dump_json() for e in events)
        )
        pieces = "".join(e.text for e in events if isinstance(e, PieceEvent))
    for form in (
        ONE,
        ONE.strip(),
        "Zebra-7",
        "Zebra",
        base64.b64encode(ONE.encode()).decode()[:9],
        "WmVicm",
        "plYnJh",
        "aZWJyY",
    ):
        assert form not in told + pieces, form
        assert form.encode() not in everything_in(session.run_dir), form
    assert "late [secret ONE]" in told
    assert any(isinstance(event, OutputEvent) for event in events)


async def test_a_header_has_the_value_outside_and_a_placeholder_inside(
    pages: int, other_pages: int, posted: list[str]
) -> None:
    at, elsewhere = f"127.0.0.1:{pages}", f"localhost:{other_pages}"
    mine = spec(SecretSpec(name="ONE", hosts=(at,)), allow=(at, elsewhere))
    python = "import requests; log(requests.post('http://{}/', headers={{'X-Key': secrets.header('ONE')}}, {}).text)"
    node = "console.log(await (await fetch('http://{}/', {{method: 'POST', headers: {{'X-Key': await secrets.header('ONE')}}}})).text())"
    page = (
        f"await page.goto('http://{at}/form')\n"
        "log(await page.evaluate(\"key => fetch('/', {method: 'POST', headers: {'X-Key': key}}).then(it => it.text())\", "
        "secrets.header('ONE')))"
    )
    async with Session.open(mine, secrets={"ONE": ONE}) as session:
        assert await said(session, python.format(at, "")) == "[secret ONE]"
        assert await said(session, python.format(at, "proxies={'http': 'http://127.0.0.1:3128'}")) == "[secret ONE]"
        assert await said(session, page) == "[secret ONE]"
        in_node = await session.execute(node.format(at), language="javascript")
        assert in_node.text == "[secret ONE]"
        assert [ONE.strip() in headers for headers in posted] == [True] * 4
        encrypted = node.format(at).replace("http:", "https:")
        assert "Write http://HOST:443/ instead" in (await session.execute(encrypted, language="javascript")).text
        refused = await said(session, python.format(elsewhere, ""))
        assert f"The secret ONE is bound to {at} only, and a request to {elsewhere} had what stands for it" in refused
        in_body = await said(session, python.format(at, "data=secrets.header('ONE')"))
        assert "What stands for the secret ONE stood in the body of a request" in in_body
        assert len(posted) == 4
        assert await said(session, "log(secrets.header('ONE').startswith('CellwrightSecret_ONE_'))") == "True"
    egress = [line.record for line in read_run(session.run_dir).lines if isinstance(line.record, Egress)]
    used = [(one.allowed, one.secrets) for one in egress if one.secrets]
    assert sorted(used) == [(False, ("ONE",)), (False, ("ONE",)), *[(True, ("ONE",))] * 4]
    assert ONE.strip().encode() not in everything_in(session.run_dir)


async def test_nothing_inside_has_a_value_before_it_is_typed_nor_the_callers_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ONE", ONE)
    code = """
import os, pathlib
found = [name for name in pathlib.Path('/proc').glob('[0-9]*/*') if name.name in ('environ', 'cmdline')]
texts = [os.environ.__repr__()]
for name in found:
    try: texts.append(name.read_text(errors='replace'))
    except OSError: pass
log(any('Zebra' in text for text in texts)); log('ONE' in os.environ)
"""
    async with Session.open(spec(), secrets=VALUES) as session:
        assert await said(session, code) == "False\nFalse"
