#!/bin/sh
# Prints the path of typos, which finds misspelled words. The pinned version is built once into the cache of build.sh (some minutes).
# An installed one is not used: its dictionary would decide what `make lint` finds.
# Usage: tests/tools/typos.sh [--if-built]   (--if-built: builds nothing; prints nothing if there is none)
set -eu
# The newest that compiles with `rust-version` of Cargo.toml
version=1.49.0
bin=${GPU_ROLLOUT_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/gpu-rollout/tools}/bin
binary=$bin/typos-$version
if [ ! -x "$binary" ]; then
  [ "${1:-}" != --if-built ] || exit 0
  echo "building typos (once; cached in $bin) …" >&2
  mkdir -p "$bin"
  root=$bin/typos.tmp$$
  trap 'rm -rf "$root"' EXIT
  trap 'exit 1' HUP INT TERM
  cargo install --quiet --locked --root "$root" --target-dir "$root/target" "typos-cli@$version" >&2
  mv "$root/bin/typos" "$binary"
fi
ln -sfn "$(basename "$binary")" "$bin/typos"
echo "$binary"
