"""Imports point down only. Read from the syntax trees, so that what stands under TYPE_CHECKING or in a function counts too."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

LAYERS = (
    ("__main__",),
    ("pytest_plugin",),  # it starts a command; the doubles are loaded where a test asks for one
    ("testing",),  # the doubles stand in for anything, and nothing but tests imports them
    ("cli",),
    ("bench",),  # it measures everything else
    ("gateway", "alone"),
    ("resuming", "emulator"),  # a model goes on in what was rebuilt; a server that plays runs, too
    ("loop", "replay"),
    ("driving",),  # the loop's turns
    ("pool",),  # it leases whole sessions
    ("session",),
    ("executor",),
    ("leaving",),
    ("approval", "checking", "requesting"),
    ("screen", "attached", "closing", "place"),  # what the loop asks of a session
    ("ongoing",),
    ("lease",),
    ("browser_https",),
    ("shortening", "briefing"),
    ("conversation", "terms", "meanwhile", "model_server"),
    ("steering",),
    (
        "running",
        "secret_uses",
        "questions",
        "files",
        "outgoing",
        "deadlines",
        "doctor",
        "endings",
        "progress",
        "stuck",
        "spans",
        "history",
    ),
    ("ledger",),  # what a run's record says that it cost
    ("people",),  # who can be asked; what they said is recorded
    ("desk",),
    ("record", "budget", "asking"),
    ("policy", "prices", "estimate"),
    ("sandbox", "model"),
    ("egress",),
    ("secrets",),
    ("answer", "prompts"),
    ("outside", "validity"),
    ("errors", "counted", "plain"),
)
"""The outside's parts, from the top down; a part may import what stands below its line, and its own files."""

FOR_BOTH = ("cellwright_kernel.pace", "cellwright_kernel.secrets.placeholder")
"""What holds inside as outside, and is no value on the wire."""

RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}


def test_outside_imports_point_down():
    upward = [
        f"{name} imports {target}"
        for name, part, target in outside_imports()
        if part_of(target) != part and RANK[part_of(target)] <= RANK[part]
    ]
    assert upward == []


def test_every_part_has_its_layer():
    assert {part for _, part, _ in outside_imports()} - RANK.keys() == set()


def test_outside_imports_of_the_inside_its_wire_types_and_what_is_decided_for_both():
    imported = {
        target
        for file in (ROOT / "orchestrator").rglob("*.py")
        for target in imports(file)
        if target.split(".")[0] == "cellwright_kernel"
    }
    assert imported == {*(f"cellwright_kernel.wire{part}" for part in ("", "_https", "_people")), *FOR_BOTH}


def test_what_is_decided_for_both_needs_nothing_but_python():
    """Kernels import it at their start."""
    needed = {
        name.split(".")[0]
        for module in FOR_BOTH
        for name in imports(ROOT / "kernel" / f"{module.replace('.', '/')}.py")
    }
    assert needed <= sys.stdlib_module_names


def test_inside_never_imports_the_outside():
    wrong = [
        f"{file.relative_to(ROOT)} imports {target}"
        for file in (ROOT / "kernel").rglob("*.py")
        for target in imports(file)
        if target.split(".")[0] == "cellwright"
    ]
    assert wrong == []


def test_every_import_names_its_module_in_full():
    relative = [
        str(file.relative_to(ROOT))
        for folder in ("kernel", "orchestrator")
        for file in (ROOT / folder).rglob("*.py")
        for node in import_statements(file)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


def outside_imports() -> Iterator[tuple[str, str, str]]:
    """Yield (file, its part, a module of ours that it imports); the public face of the package may import anything."""
    package = ROOT / "orchestrator/cellwright"
    for file in package.rglob("*.py"):
        if file == package / "__init__.py":
            continue
        name = file.relative_to(package)
        for target in imports(file):
            if target.startswith("cellwright."):
                yield str(name), name.parts[0].removesuffix(".py"), target


def part_of(module: str) -> str:
    return module.split(".")[1]


def imports(file: Path) -> Iterator[str]:
    """Yield every module that a file imports; `from package import name` counts as the name where that is a module."""
    for node in import_statements(file):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if is_module(full) else node.module


@cache  # all tests here ask about the same files
def import_statements(file: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Return every import in a file, wherever in it."""
    return tuple(
        node for node in ast.walk(ast.parse(file.read_bytes())) if isinstance(node, (ast.Import, ast.ImportFrom))
    )


@cache
def is_module(name: str) -> bool:
    path = name.replace(".", "/")
    return any(
        (ROOT / source / end).exists()
        for source in ("kernel", "orchestrator")
        for end in (f"{path}.py", f"{path}/__init__.py")
    )


PACKERS = {"orchestrator/cellwright/replay/export_zip.py": "zipfile"}
"""Files that write what nothing out here may open, and with what."""


def test_outside_decodes_no_picture_and_unpacks_nothing():
    """A picture or an archive of a few bytes may be one of gigabytes, and a name in it a way out; whoever opens it decides."""
    openers = {
        "PIL",
        "cv2",
        "imageio",
        "matplotlib",
        "zipfile",
        "tarfile",
        "gzip",
        "bz2",
        "lzma",
        "pickle",
        "marshal",
        "shelve",
    }
    found = [
        f"{file.relative_to(ROOT)} imports {target}"
        for file in (ROOT / "orchestrator").rglob("*.py")
        for target in imports(file)
        if target.split(".")[0] in openers - {PACKERS.get(str(file.relative_to(ROOT)))}
    ]
    assert found == []


def test_what_packs_opens_nothing_that_is_packed():
    """It makes new archives only: each is opened for writing, and so is everything in it."""
    for name, module in PACKERS.items():
        calls = [node for node in ast.walk(ast.parse((ROOT / name).read_bytes())) if isinstance(node, ast.Call)]
        made = [call for call in calls if ast.unparse(call.func).startswith(f"{module}.")]
        inside = [call for call in calls if ast.unparse(call.func).startswith("packed.")]
        assert {ast.unparse(call.func) for call in made} == {"zipfile.ZipFile", "zipfile.ZipInfo"}
        assert {ast.unparse(call.func) for call in inside} == {"packed.open"}
        opened = [call for call in (*made, *inside) if ast.unparse(call.func) != "zipfile.ZipInfo"]
        assert [ast.literal_eval(call.args[1]) for call in opened] == ["w"] * len(opened)
