#!/usr/bin/env bash
# Builds the sandbox image, localhost/cellwright-sandbox, with podman or docker, whichever is there:
#
#   bash sandbox_image/build.sh [--engine podman|docker] [--if-changed] [OPTION OF THE ENGINE'S build ...]
#
# It stands on $BASE if that is set, else on localhost/cellwright-base if there is one, else on debian:bookworm-slim; where that can't be
# fetched, base.sh makes the first of them. What pip is set up with on this machine holds during the build and does not stay.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
tag=localhost/cellwright-sandbox:latest
made_here=localhost/cellwright-base:latest
engine='' if_changed='' python=python3
if [[ -x .venv/bin/python ]]; then python=.venv/bin/python; fi
if [[ ${1:-} == --engine ]]; then
  engine=$2
  shift 2
fi
if [[ ${1:-} == --if-changed ]]; then
  if_changed=1
  shift
fi
made_from=$(find kernel orchestrator/cellwright/{__init__,errors,alone,answer,counted}.py orchestrator/cellwright/sandbox/{build,runtime}.py \
  sandbox_image/{Containerfile,packages.txt} -type f ! -name '*.pyc' -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { echo "image: $*"; }

find_engine() {
  for one in podman docker; do
    if [[ -z $engine ]] && command -v $one >/dev/null && $one info >/dev/null 2>&1; then engine=$one; fi
  done
  [[ -n $engine ]] || {
    echo "image: neither podman nor docker works here. Nothing was built. Run: bash scripts/setup.sh --podman" >&2
    exit 3
  }
}

find_base() {
  [[ -z ${BASE:-} ]] || return 0
  if ! "$engine" image inspect $made_here >/dev/null 2>&1; then
    BASE=debian:bookworm-slim
    timeout 60 "$engine" pull -q $BASE >/dev/null 2>&1 && return
    say "$BASE can't be fetched; making a base from Debian's packages"
    bash sandbox_image/base.sh "$engine"
  fi
  BASE=$made_here
}

pip_settings() { # as a pip.conf; what they name of this machine's files is there for the build as well, with podman
  {
    echo "[global]"
    { "$python" -m pip config list 2>/dev/null || true; } | sed -nE "s/^(:env:|global|install|user|site)\.\.?([a-z-]+)='(.*)'$/\2 = \3/p" |
      grep -E '^(index-url|extra-index-url|find-links|trusted-host|constraint|proxy|timeout|no-index) ' | sort -u -t= -k1,1 || true
  } >"$work/pip.conf"
  local certificate
  certificate=$("$python" -m pip config get global.cert 2>/dev/null || echo "${PIP_CERT:-}")
  if [[ -f $certificate ]]; then cp "$certificate" "$work/certificates"; else : >"$work/certificates"; fi
}

settings_paths() { # of those settings, one a line; an index's files lie beside it
  sed -nE 's/^(extra-)?index-url = (.*)/\2/p' "$work/pip.conf" | tr ' ' '\n' | sed -nE 's,^file://(/.+)/[^/]+/?$,\1,p'
  sed -nE 's/^(find-links|constraint) = (.*)/\2/p' "$work/pip.conf" | tr ' ' '\n' | sed -n 's,^file://,,; /^\//p'
}

find_engine
if [[ -n $if_changed ]]; then
  [[ $("$engine" image inspect --format '{{index .Config.Labels "cellwright.made-from"}}' $tag 2>/dev/null) != "$made_from" ]] || exit 0
fi
find_base
pip_settings
options=(--network host --secret "id=pip,src=$work/pip.conf" --secret "id=certificates,src=$work/certificates")
if [[ $engine == podman ]]; then
  # by default it asks for more than whoever has no CAP_SYS_RESOURCE may have
  options+=(--format docker --ignorefile sandbox_image/Containerfile.dockerignore
    --ulimit nofile=4096:4096 --ulimit nproc=4096:4096)
  while read -r path; do
    if [[ -e $path ]]; then options+=(--volume "$path:$path:ro"); fi
  done < <(settings_paths)
fi
say "building $tag on $BASE with $engine (a few minutes)"
"$engine" build -q "${options[@]}" --build-arg "BASE=$BASE" --label "cellwright.made-from=$made_from" --tag $tag -f sandbox_image/Containerfile "$@" . >"$work/log" 2>&1 || {
  tail -n 40 "$work/log" >&2
  echo "image: it could not be built; the lines above say why." >&2
  exit 3
}
say "$tag: $("$engine" image inspect --format '{{.Size}}' $tag | awk '{printf "%.2f GB", $1 / 1e9}')"
