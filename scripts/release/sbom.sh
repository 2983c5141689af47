#!/bin/sh
# Prints the bill of materials (CycloneDX) of the program: every package that is linked, with its license and
# the digest from Cargo.lock.
# Usage: scripts/release/sbom.sh SOURCE TARGET [OPTION…]   (OPTION: cargo's, such as --no-default-features)
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
source=$1
target=$2
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

"$here/linked.sh" "$@" >"$place/linked"
shift 2
cargo metadata --manifest-path "$source/Cargo.toml" --locked --format-version 1 --filter-platform "$target" "$@" >"$place/metadata"
# Of each package: name, version, then the checksum if it is from a registry
awk -F '"' '
  /^name = / { name = $2 }
  /^version = / { version = $2 }
  /^checksum = / { print name "@" version, $2 }
' "$source/Cargo.lock" >"$place/checksums"
jq --sort-keys --rawfile linked "$place/linked" --rawfile checksums "$place/checksums" --arg target "$target" \
  --argjson time "$SOURCE_DATE_EPOCH" --from-file "$here/sbom.jq" "$place/metadata"
