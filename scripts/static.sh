#!/bin/sh
# Builds the program as users get it: static on Linux (scripts/rustflags.sh). Prints the path of the binary.
# Usage: scripts/static.sh PROFILE TARGET [CARGO_ARGUMENT…]   (a cargo profile; a target triple)
# The binary is in target/image/cargo, where the last build of a target replaces the one before. A separate
# target directory: with a shared one, the different flags would rebuild everything at each switch between
# this build and a development build.
set -eu
CDPATH='' cd -- "$(dirname -- "$0")/.."
profile=$1
target=$2
shift 2

CARGO_TARGET_DIR=$PWD/target/image/cargo CARGO_ENCODED_RUSTFLAGS=$(scripts/rustflags.sh "$target")
export CARGO_TARGET_DIR CARGO_ENCODED_RUSTFLAGS
# Code in C needs the headers of musl.
case $target in *-linux-musl) export "CC_$(echo "$target" | tr - _)=musl-gcc" ;; esac
case $profile in dev | test) folder=debug ;; bench) folder=release ;; *) folder=$profile ;; esac
binary=$CARGO_TARGET_DIR/$target/$folder/gpu-rollout
# Cargo does not know that the program depends on this file.
if [ -e "$binary" ] && [ -n "$(find scripts/function-order.ld -newer "$binary")" ]; then
  cargo clean --quiet --profile "$profile" --target "$target" --package gpu-rollout
fi
# With an explicit target, cargo does not pass the flags to build scripts and procedural macros, which
# cannot be static.
cargo build --profile "$profile" --locked --target "$target" "$@" >&2

case $target in
*-linux-*)
  headers=$(readelf --program-headers --wide "$binary")
  case $headers in
  *INTERP*)
    echo "scripts/static.sh: $binary needs a dynamic loader, but it must run without one" >&2
    exit 1
    ;;
  esac
  ;;
esac
echo "$binary"
