"""Every helper that the prompts name is there, in the kernel whose prompt names it."""

from __future__ import annotations

import json
import re

import pytest

from cellwright.model.tools import instructions_for, tools_for
from cellwright.sandbox.base import SecretSpec, Spec
from cellwright.session import Session
from cellwright_kernel.wire import Language

pytestmark = [pytest.mark.slow, pytest.mark.sandbox]

NAMED = re.compile(
    r"(?<![\w.])(?:(browser|context|page|screen|clipboard|ui|pyautogui|secrets|console)\.(\w+)\(|(display|log)\()"
)
OF_POINTER = re.compile(r"\((click, moveTo[^)]*)\)")
SPEC = Spec(secrets=(SecretSpec(name="KEY"),), params={"city": "Rome"})


def named(language: Language) -> list[str]:
    """Return what the words for a model that writes one language name: `screen.shot`, `log`, `params`."""
    said = instructions_for([], [], languages=(language,), secrets={"KEY": ()}, params={"city": "Rome"})
    (tool,) = tools_for((language,), width=1440, height=1000, page_height=900)
    words = f"{said}\n{tool['description']}"
    found = {f"{of}.{name}" if of else alone for of, name, alone in NAMED.findall(words)}
    for listed in OF_POINTER.findall(words):
        found |= {f"pyautogui.{name}" for name in re.split(r",\s+", listed)}
    return sorted({*found, "params"} | {name for name in ("browser", "context", "page") if name in words})


def test_the_prompts_name_helpers() -> None:
    assert {
        "screen.settle",
        "screen.find_text",
        "ui.tree",
        "pyautogui.hotkey",
        "clipboard.read",
        "secrets.header",
        "log",
    } <= set(named("python"))
    assert {"screen.waitText", "ui.wait", "console.log", "display", "clipboard.write", "secrets.type"} <= set(
        named("javascript")
    )


async def test_each_of_them_is_there() -> None:
    async with Session.open(SPEC, secrets={"KEY": "swordfish-7"}) as session:
        for language, asks in (
            (
                "python",
                "log(json.dumps([callable(eval(n)) or n in ('params', 'browser', 'context', 'page') for n in names]))",
            ),
            (
                "javascript",
                "console.log(JSON.stringify(names.map((n) => ['function', 'object'].includes(typeof eval(n)))))",
            ),
        ):
            names = named(language)  # type: ignore[arg-type]
            begin = "import json\nnames = " if language == "python" else "names = "
            used = "\n".join(sorted({name.partition(".")[0] for name in names}))  # what a cell names is bound for it
            cell = await session.execute(f"{begin}{json.dumps(names)}\n{used}\n{asks}", language=language)  # type: ignore[arg-type]
            said = json.loads(cell.text.splitlines()[-1])
            assert [name for name, is_there in zip(names, said, strict=True) if not is_there] == []
