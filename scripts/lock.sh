#!/usr/bin/env bash
# Writes both lock files anew from pyproject.toml: the outside's (requirements.lock, with the tools of development)
# and the inside's (kernel/cellwright_kernel/requirements.lock, which travels in the wheel).
#
#   bash scripts/lock.sh [--upgrade]
#
# Each serves every Python from 3.11 on, and names no registry: which one is asked is the machine's business.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
/usr/bin/python3 -m venv "$tools/venv"
"$tools/venv/bin/python" -m pip install --quiet --disable-pip-version-check 'uv>=0.13,<0.14'

compile() { # OUTPUT, then what to compile
  "$tools/venv/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-header --no-annotate --no-emit-index-url --no-emit-find-links --output-file "$@"
}

compile requirements.lock "$@" pyproject.toml --group dev --group build

# only the extra: `--extra kernel` would bring the outside's own dependencies in
/usr/bin/python3 - >"$tools/inside.in" <<'PYTHON'
import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["project"]["optional-dependencies"]["kernel"], sep="\n")
PYTHON
# python3-xlib is an old copy of python-xlib under the same import name; pyautogui asks for it and works with either
compile kernel/cellwright_kernel/requirements.lock "$@" "$tools/inside.in" --no-emit-package python3-xlib
