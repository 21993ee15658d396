#!/usr/bin/env bash
# Sets up, checks, and runs every test, real sandboxes and browsers included. Arguments go to pytest:
#
#   bash scripts/test.sh                            # everything but what needs the sandbox image
#   bash scripts/test.sh -m "not sandbox"           # the quick part
#   bash scripts/test.sh --podman                   # also what needs podman and the image, which are set up first: as CI does it
#
# Where podman can start nothing at all, its tests are left out, and the last lines say how many.
set -euo pipefail
cd "$(dirname "$0")/.."
image=''

can_podman_run() { # anything, if not the sandbox image
  local base=localhost/cellwright-base:latest
  podman image exists $base && podman run --rm --network none --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 $base true
}

if [[ ${1:-} == --podman ]]; then
  shift
  bash scripts/setup.sh # before the other one, so that the two do not meet
  bash scripts/setup.sh --podman & # takes minutes, in which the code is looked at
  image=$!
fi
bash scripts/check.sh || {
  [[ -z $image ]] || wait "$image" || true # nothing is left running
  exit 1
}
if [[ -n $image ]] && ! wait "$image"; then
  if can_podman_run; then
    echo "test: podman works here, and the sandbox image could not be made; the lines above say why" >&2
    exit 3
  fi
  echo "test: podman can start nothing here; the lines above say why. The tests of what it starts are left out" >&2
fi
exec .venv/bin/python -m pytest --durations=10 "$@"
