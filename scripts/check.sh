#!/usr/bin/env bash
# What can be said about the code without running it: lint, format, types. `--fix` repairs what can be repaired.
set -euo pipefail
cd "$(dirname "$0")/.."
bash scripts/setup.sh
if [[ ${1:-} == --fix ]]; then
  .venv/bin/ruff check --quiet --fix .
  .venv/bin/ruff format --quiet .
fi
.venv/bin/ruff check --quiet .
.venv/bin/ruff format --quiet --check . || { echo "check: run \`bash scripts/check.sh --fix\`" >&2; exit 1; }
.venv/bin/mypy --no-error-summary
echo "check: lint, format and types are clean"
