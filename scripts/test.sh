#!/usr/bin/env bash
# Sets up, checks, and runs every test, real sandboxes and browsers included. Arguments go to pytest:
#
#   bash scripts/test.sh                            # everything, as CI does it
#   bash scripts/test.sh -m "not sandbox"           # the quick part
#   bash scripts/test.sh --two                      # everything, in less time, on a machine with nothing else to do
#
# With `--two`, two processes share the tests, a file at a time: most of what they do is wait. Those that measure time, or use up
# what the machine has, follow one after the other (tests/conftest.py lists them).
set -euo pipefail
cd "$(dirname "$0")/.."
bash scripts/check.sh
[[ ${1:-} == --two ]] || exec .venv/bin/python -m pytest --durations=10 "$@"
shift

NONE=5 # pytest's exit status when it has found no test

phase() { # NAME, then arguments of pytest
  local status=0
  .venv/bin/python -m pytest --durations=10 --phase "$@" || status=$?
  [[ $status != "$NONE" ]] && ran=1 || return 0
  [[ $status == 0 ]] || failed=$status
}

ran=0 failed=0
phase together -n 2 --dist loadfile "$@"
phase alone "$@"
[[ $ran == 1 ]] || exit "$NONE"
exit "$failed"
