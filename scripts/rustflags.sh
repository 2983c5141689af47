#!/bin/sh
# Prints the compiler's options for a program that users get, as the value of CARGO_ENCODED_RUSTFLAGS: static
# on Linux, and without paths of this machine, so that builds in two directories give the same bytes.
# Usage: scripts/rustflags.sh TARGET   (a target triple)
set -eu
cd "$(dirname -- "$0")/.."
target=$1
registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
# The names of the folders below it are known only when it exists.
[ -d "$registry" ] || cargo fetch --quiet --locked --target "$target" >&2

# Cargo separates options by this character, so that they can contain spaces.
separator=$(printf '\037')
options=
add() { options="$options${options:+$separator}$1"; }

case $target in
*-linux-*)
  add -Ctarget-feature=+crt-static
  # Puts the functions of renders next to each other. The script finds them by name, and only in mangling
  # scheme v0 do the names of generic functions contain their types. GNU ld and LLVM's linker read it; its path is
  # not in the output.
  add -Csymbol-mangling-version=v0
  add -Clink-arg=-T
  add "-Clink-arg=$(pwd -P)/scripts/function-order.ld"
  ;;
esac
# A compact list of the 54,000 addresses that are adapted at each start: 1.3 MiB less to read. Rust's musl can
# read it. Whether glibc can (2.36 and later) depends on the machine that builds.
case $target in *-linux-musl) add -Clink-arg=-Wl,-z,pack-relative-relocs ;; esac
# The last option that matches a path applies. Generated code is in the target directory, which is below
# this one.
add "--remap-path-prefix=$(pwd -P)=/gpu-rollout"
for directory in "$registry"/*; do
  add "--remap-path-prefix=$directory=/registry"
done
# With the component rust-src, the compiler would name its files.
add "--remap-path-prefix=$(rustc --print sysroot)/lib/rustlib/src/rust=/rustc"
printf '%s' "$options"
