#!/usr/bin/env bash
# Makes this checkout ready: Debian packages, the project's own environment (.venv), and the sandbox's runtime.
# Safe to run again at any time: it does only what is missing, and finds that out in about a second.
#
#   bash scripts/setup.sh [--podman]     # with it also podman, and the sandbox image that it makes sandboxes from
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
python=/usr/bin/python3
log=$(mktemp)
trap 'rm -f "$log"' EXIT
unwanted='# engine:' # marks packages of the list
if [[ ${1:-} == --podman ]]; then unwanted='^$'; fi

say() { echo "setup: $*"; }

fail() { # STATUS, then what happened and what to do
  echo "setup: ${*:2}" >&2
  exit "$1"
}

quietly() { # runs a command and shows what it said only if it fails
  "$@" >"$log" 2>&1 || { tail -n 40 "$log" >&2; return 1; }
}

as_root() {
  if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi
}

missing_packages() { # those of sandbox_image/packages.txt that are not installed, one a line
  local wanted
  wanted=$(grep -v "$unwanted" sandbox_image/packages.txt | sed 's/#.*//' | tr -s '[:space:]' '\n' | sed '/^$/d' | sort -u)
  comm -23 <(echo "$wanted") \
    <(xargs dpkg-query -W -f '${db:Status-Status} ${Package}\n' <<<"$wanted" 2>/dev/null | sed -n 's/^installed //p' | sort -u)
}

install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "not a Debian machine: install what corresponds to sandbox_image/packages.txt yourself"
    return
  fi
  local missing
  mapfile -t missing < <(missing_packages)
  [[ ${#missing[@]} -gt 0 ]] || return 0
  [[ $(id -u) == 0 ]] || command -v sudo >/dev/null ||
    fail 3 "these Debian packages are missing, and there is no sudo to install them with. As root, run: apt-get install ${missing[*]}"
  say "installing ${#missing[@]} Debian packages (about 1 GB with all that they need): ${missing[*]}"
  local apt=(as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
  quietly "${apt[@]}" update || fail 3 "apt-get update failed. Usually the package mirror does not answer. Run this again later."
  quietly "${apt[@]}" install -y --no-install-recommends "${missing[@]}" ||
    fail 3 "the packages could not be installed; the lines above say why. What is there already was left as it was."
}

hash_of() { sha256sum "$@" | sha256sum | cut -c1-16; }

is_done() { [[ $(cat ".venv/done-$1" 2>/dev/null) == "$2" ]]; } # NAME, HASH of what it was made from

make_environment() {
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    fail 3 "$python is missing or older than 3.11, which Debian 12 has. Nothing was changed."
  local interpreter locked project
  interpreter=$(readlink -f "$python")
  locked="$interpreter $PWD $(hash_of requirements.lock)"
  project=$(hash_of pyproject.toml)
  if ! is_done packages "$locked"; then
    say "installing the pinned Python packages into .venv"
    # an environment of another interpreter, or one that was moved, is made anew
    [[ $(readlink -f .venv/bin/python) == "$interpreter" ]] && grep -qF "$PWD/.venv" .venv/bin/activate ||
      "$python" -m venv --clear .venv
    in_venv install --require-hashes --no-compile -r requirements.lock ||
      fail 3 "the Python packages could not be installed. Usually the registry does not answer. Run this again."
    .venv/bin/python -W ignore -m compileall -q -j 0 .venv/lib >/dev/null || true # some ship modules that are no valid Python
    rm -f .venv/done-*
    echo "$locked" >.venv/done-packages
  fi
  if ! is_done project "$project"; then
    in_venv install --no-deps --no-build-isolation --editable . || fail 3 "the project itself could not be installed."
    echo "$project" >.venv/done-project
  fi
}

in_venv() { .venv/bin/python -m pip --disable-pip-version-check -qq "$@"; }

install_packages
make_environment
.venv/bin/python -m cellwright.sandbox.build
if [[ ${1:-} == --podman ]]; then bash sandbox_image/build.sh --engine podman --if-changed; fi
