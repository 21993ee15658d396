#!/usr/bin/env bash
# Sets up, checks, and runs every test, real sandboxes and browsers included. Arguments go to pytest:
#
#   bash scripts/test.sh                            # everything, as CI does it
#   bash scripts/test.sh -m "not sandbox"           # the quick part
#   bash scripts/test.sh --podman                   # also what needs podman and the sandbox image, which are set up first
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ ${1:-} == --podman ]]; then
  shift
  bash scripts/setup.sh --podman
fi
bash scripts/check.sh
exec .venv/bin/python -m pytest --durations=10 "$@"
