"""What holds for every file of the project."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from pip._internal.models.index import PyPI

ROOT = Path(__file__).parents[2]


def tracked(*patterns: str) -> list[Path]:
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def test_every_module_says_what_it_is_for():
    silent = [
        str(file.relative_to(ROOT))
        for file in tracked("*.py")
        if file.name != "__init__.py" and not file.is_relative_to(ROOT / "tests")
        if not re.match(r'(?:#.*\n|\n)*"""\s*[^"\s]', file.read_text())
    ]
    assert silent == []


def test_no_file_is_two_nouns():
    """Over 400 lines, a file is two things under one name."""
    long = {
        str(file.relative_to(ROOT)): count
        for file in tracked("*.py", "*.cjs", "*.js")
        if (count := len(file.read_bytes().splitlines())) > 400
    }
    assert long == {}


def registry_hosts() -> set[str]:
    """Return the hosts of package registries as this machine's own clients know them; none is written down here."""
    settings = [value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "NPM_"))]
    for folder in (Path("/etc/apt"), Path("/etc/xdg/pip")):
        settings += [
            file.read_text(errors="replace")
            for file in folder.rglob("*.*")
            if file.suffix in {".list", ".sources", ".conf"}
        ]
    settings += [file.read_text() for file in (Path("/etc/pip.conf"), Path("/etc/npmrc")) if file.is_file()]
    found = set(re.findall(r"https?://([^/\s'\"]+)", " ".join(settings)))
    return found | {PyPI.netloc, PyPI.file_storage_domain}


def machine_paths() -> list[str]:
    """Return patterns of paths of one machine; `agent` lives inside the sandbox, `somebody` in tests."""
    return [re.escape(str(ROOT)) + r"\b", r"/home/(?!agent\b|somebody\b)\w+/", r"/Users/\w+/"]


@pytest.mark.parametrize("kind", ["registry", "machine"])
def test_no_file_names_a_registry_or_a_path_of_a_machine(kind):
    patterns = [re.escape(host) for host in registry_hosts()] if kind == "registry" else machine_paths()
    wrong = re.compile("|".join(patterns))
    files = [file for file in tracked() if file != Path(__file__)]
    assert files
    hits = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for file in files
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1)
        if wrong.search(line)
    ]
    assert hits == []


@pytest.mark.parametrize("name", ["requirements.lock", "kernel/cellwright_kernel/requirements.lock"])
def test_lock_pins_every_package_by_hash_and_nothing_else(name):
    entry = r"[a-z0-9][a-z0-9.-]*==\S+(?: ; [^\\\n]+)?(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n"
    assert re.fullmatch(f"(?:{entry})+", (ROOT / name).read_text())


def test_locks_agree_on_what_both_sides_have():
    def pins(name):
        return set(re.findall(r"^(\S+==\S+)", (ROOT / name).read_text(), re.MULTILINE))

    def packages(pinned):
        return {pin.split("==")[0] for pin in pinned}

    outside, inside = pins("requirements.lock"), pins("kernel/cellwright_kernel/requirements.lock")
    both = packages(outside) & packages(inside)
    assert both
    assert {p for p in outside if p.split("==")[0] in both} == {p for p in inside if p.split("==")[0] in both}
