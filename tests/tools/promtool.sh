#!/bin/sh
# Prints the path of promtool, which checks alerts and metrics: the one in PATH, or that of Debian's
# package `prometheus`, without the rest of the package. The cache is that of build.sh.
set -eu
if found=$(command -v promtool); then
  echo "$found"
  exit
fi
bin=${GPU_ROLLOUT_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/gpu-rollout/tools}/bin
if [ ! -x "$bin/promtool" ]; then
  command -v apt-get >/dev/null 2>&1 || {
    echo "tests/tools/promtool.sh: missing: promtool" >&2
    echo "hint: install it with your package manager (it comes with Prometheus)" >&2
    exit 1
  }
  place=$(mktemp -d)
  trap 'rm -rf "$place"' EXIT
  ( cd "$place" && { apt-get download -qq prometheus || { apt-get update -qq && apt-get download -qq prometheus; }; } ) >&2 2>"$place/log" || {
    cat "$place/log" >&2
    exit 1
  }
  dpkg-deb --fsys-tarfile "$place"/prometheus_*.deb | tar --extract --directory "$place" ./usr/bin/promtool
  mkdir -p "$bin"
  mv "$place/usr/bin/promtool" "$bin/promtool"
fi
echo "$bin/promtool"
