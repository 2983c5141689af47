#!/bin/sh
# Prints the packages that are linked into the program, one NAME@VERSION per line, sorted.
# Usage: scripts/release/linked.sh SOURCE TARGET [OPTION…]   (OPTION: cargo's, such as --no-default-features)
set -eu
source=$1
target=$2
shift 2
list=$(cargo tree --manifest-path "$source/Cargo.toml" --locked --package gpu-rollout --target "$target" "$@" \
  --edges normal --prefix none --format '{p}')
echo "$list" | awk '{ print $1 "@" substr($2, 2) }' | LC_ALL=C sort -u
