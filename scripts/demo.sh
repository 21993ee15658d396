#!/usr/bin/env bash
# Sets up, then has the scripted model do the expenses task on a real desktop: offline, no key. Arguments go to the demo.
set -euo pipefail
cd "$(dirname "$0")/.."
bash scripts/setup.sh
exec .venv/bin/python examples/expenses/demo.py "$@"
