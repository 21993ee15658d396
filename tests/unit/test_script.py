"""What a script for the emulator says, and where it says nothing that can be played."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cellwright.emulator.script import Script, ScriptedCall
from cellwright.errors import FileMissing, UsageError


def test_script_format():
    script = Script.parse(
        "<!-- a comment\n---\n```python\n-->\n"
        "Two calls.\n\n````python\nx = '''\n```\n---\n<!-- kept -->\n'''\n````\nAnd\n~~~js\nawait page.title()\n~~~\n"
        "---\nexpect: a b\nexpect: image\nexpect-not: c\nphase: none\nwait: 0.5\nLast: words.\n---\n\n---\nwrap-up\nSummed up.\n"
    )
    first, second = script.turns
    assert first.text == "Two calls.\n\nAnd"
    assert first.calls == (
        ScriptedCall("exec_py", json.dumps({"code": "x = '''\n```\n---\n<!-- kept -->\n'''"})),
        ScriptedCall("exec_js", json.dumps({"code": "await page.title()"})),
    )
    assert (first.phase, second.phase) == ("commentary", None)
    assert (second.expects, second.expects_image, second.expects_not) == (("a b",), True, ("c",))
    assert (second.text, second.wait_s) == ("Last: words.", 0.5)
    assert script.wrap_up.text == "Summed up."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no turn"),
        ("---\n\n---", "has no turn"),
        ("```python\nx = 1", "not closed"),
        ("```\nx = 1\n```", "must say python"),
        ("```bash\nls\n```", "'bash'"),
        ("phase: loud\nHi.", "'loud'"),
        ("Hi.\n---\nhttp: often\nHi.", "turn 2: 'often' is not a number"),
        ("wait: nan\nHi.", "turn 1: 'nan' is no number from 0 on"),
        ("wait: inf\nHi.", "turn 1: 'inf' is no number from 0 on"),
        ("http: 429 inf\nHi.", "turn 1: 'inf' is no number from 0 on"),
    ],
)
def test_script_that_is_not_one_says_where(text: str, said: str):
    with pytest.raises(UsageError, match=said):
        Script.parse(text)


def test_script_that_is_not_there_is_said(tmp_path: Path):
    with pytest.raises(FileMissing, match="cannot be read"):
        Script.read(tmp_path / "none.md")
