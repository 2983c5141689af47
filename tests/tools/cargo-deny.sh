#!/bin/sh
# Prints the path of cargo-deny: the one in PATH, or the pinned version, which is built once into the cache of build.sh (some minutes).
# Usage: tests/tools/cargo-deny.sh [--if-built]   (--if-built: builds nothing; prints nothing if there is none)
set -eu
version=0.20.2
if found=$(command -v cargo-deny); then
  echo "$found"
  exit
fi
root=${GPU_ROLLOUT_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/gpu-rollout/tools}/cargo-deny-$version
if [ ! -x "$root/bin/cargo-deny" ]; then
  [ "${1:-}" != --if-built ] || exit 0
  echo "building cargo-deny (once; cached in $root) …" >&2
  # Speed does not matter for a few hundred manifests: the debug build takes a fraction of the time.
  cargo install --quiet --locked --debug --root "$root" --target-dir "$root/target" "cargo-deny@$version" >&2
  rm -rf "$root/target"
fi
echo "$root/bin/cargo-deny"
