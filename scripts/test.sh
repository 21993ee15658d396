#!/usr/bin/env bash
# Sets up, checks, and runs every test, real sandboxes and browsers included. Arguments go to pytest:
#
#   bash scripts/test.sh                            # everything, about as CI does it
#   bash scripts/test.sh -m "not sandbox"           # the quick part
set -euo pipefail
cd "$(dirname "$0")/.."
bash scripts/check.sh
exec .venv/bin/python -m pytest --durations=10 "$@"
