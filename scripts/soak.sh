#!/usr/bin/env bash
# The long ones: 10,000 cells in one session, eight hours of work in small, 24 sessions at once, 10,000 made-up requests to the
# gateway, 50 demos killed at random moments and resumed, ten runs replayed twice; about three quarters of an hour on two idle
# cores. Prints figures, each with PASS or FAIL. SCALE is how much of each; the tests run a twentieth, and a tenth of the killed
# demos:
#
#   bash scripts/soak.sh [SCALE]
set -euo pipefail
cd "$(dirname "$0")/.."
bash scripts/setup.sh
exec .venv/bin/python -W error -m tests.soak "${1:-1}"
