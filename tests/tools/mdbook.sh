#!/bin/sh
# Prints the path of mdBook, which builds the site (scripts/site.sh). The pinned version is built once into the cache of build.sh (some minutes).
# An installed one is not used: another version accepts other options and creates other anchors.
# Usage: tests/tools/mdbook.sh [--if-built]   (--if-built: builds nothing; prints nothing if there is none)
set -eu
version=0.5.4
bin=${GPU_ROLLOUT_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/gpu-rollout/tools}/bin
binary=$bin/mdbook-$version
if [ ! -x "$binary" ]; then
  [ "${1:-}" != --if-built ] || exit 0
  echo "building mdBook (once; cached in $bin) …" >&2
  mkdir -p "$bin"
  root=$bin/mdbook.tmp$$
  trap 'rm -rf "$root"' EXIT
  trap 'exit 1' HUP INT TERM
  # Without its web server. Speed does not matter for some dozens of pages: the debug build takes a fraction of the time.
  cargo install --quiet --locked --debug --no-default-features --features search \
    --root "$root" --target-dir "$root/target" "mdbook@$version" >&2
  mv "$root/bin/mdbook" "$binary"
fi
echo "$binary"
