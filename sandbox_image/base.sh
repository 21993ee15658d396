#!/usr/bin/env bash
# Makes the base of the sandbox image from Debian's packages, with mmdebstrap, where no registry of images is reachable:
#
#   bash sandbox_image/base.sh [podman|docker]
#
# What it makes is called localhost/cellwright-base; sandbox_image/build.sh takes it from there.
set -euo pipefail
umask 022
engine=${1:-podman}
release=bookworm
command -v mmdebstrap >/dev/null || {
  echo "base: there is no mmdebstrap. Nothing was made. Run: apt-get install --no-install-recommends mmdebstrap" >&2
  exit 3
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# the hook: mmdebstrap copies them from the machine, and nothing of it is to stay
mmdebstrap --quiet --variant=minbase --include=ca-certificates \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/info/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --customize-hook='rm -f "$1/etc/hostname" "$1/etc/resolv.conf"; rm -rf "$1"/var/log/*' \
  "$release" "$work/base.tar" >"$work/log" 2>&1 || {
  tail -n 20 "$work/log" >&2
  [[ $(id -u) == 0 ]] || grep -q "^$(id -un):" /etc/subuid 2>/dev/null ||
    echo "base: you have no range of ids in /etc/subuid, which this and podman need. As root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $(id -un)" >&2
  exit 3
}
"$engine" import "$work/base.tar" localhost/cellwright-base:latest >/dev/null
echo "base: localhost/cellwright-base, from Debian $release"
