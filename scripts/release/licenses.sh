#!/bin/sh
# Prints the license texts of all third-party code in the program. Each text is there once, below the names of
# the packages that have it.
# Usage: scripts/release/licenses.sh SOURCE TARGET
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
source=$1
target=$2
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/texts" "$place/users"

"$here/linked.sh" "$source" "$target" >"$place/linked"
cargo metadata --manifest-path "$source/Cargo.toml" --locked --format-version 1 --filter-platform "$target" >"$place/metadata"
jq --raw-output '.packages[] | select(.source) | "\(.name)@\(.version) \(.license // "-" | gsub(" "; "_")) \(.manifest_path)"' \
  "$place/metadata" | LC_ALL=C sort >"$place/packages"

LC_ALL=C join "$place/linked" "$place/packages" >"$place/known"
echo "The program contains the following packages. Their license texts are below."
echo
while read -r package license _; do
  echo "  $package  $(echo "$license" | tr _ ' ')"
done <"$place/known"
while read -r package _ manifest; do
  folder=$(dirname -- "$manifest")
  # Also those of code in other languages, such as the C code of mimalloc.
  find "$folder" -type f \( -iname 'license*' -o -iname 'licence*' -o -iname 'copying*' -o -iname 'notice*' \
    -o -iname 'copyright*' -o -iname 'unlicense*' \) | LC_ALL=C sort >"$place/files"
  while read -r file; do
    digest=$(sha256sum <"$file")
    digest=${digest%% *}
    cp "$file" "$place/texts/$digest"
    echo "$package" >>"$place/users/$digest"
  done <"$place/files"
done <"$place/known"
for text in "$place"/texts/*; do
  printf '\n========== %s\n\n' "$(LC_ALL=C sort -u "$place/users/$(basename -- "$text")" | paste -s -d ' ' -)"
  cat "$text"
  echo
done
