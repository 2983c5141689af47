#!/bin/sh
# Builds the program for workstations, with its completions, manual pages and licenses, as the directory of an
# archive: DIRECTORY/gpu-rollout-VERSION-SYSTEM-ARCHITECTURE. Next to it, writes its bill of materials.
# Usage: scripts/release/program.sh SOURCE TARGET PROFILE DIRECTORY
#        (SOURCE: a source tree whose chart names the image; TARGET: a triple that this machine can run)
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
source=$1
target=$2
profile=$3
directory=$4
version=$("$here/version.sh" "$source")
case $target in
*-linux-*) system=linux ;;
*-apple-darwin) system=darwin ;;
*)
  echo "scripts/release/program.sh: no release for $target" >&2
  exit 2
  ;;
esac
tree=$directory/gpu-rollout-$version-$system-${target%%-*}

binary=$("$source/scripts/static.sh" "$profile" "$target")

rm -rf "$tree"
mkdir -p "$tree/completions" "$tree/man/man1" "$tree/ci"
cp "$binary" "$tree/gpu-rollout"
chmod 755 "$tree/gpu-rollout"
"$tree/gpu-rollout" completions bash >"$tree/completions/gpu-rollout.bash"
"$tree/gpu-rollout" completions zsh >"$tree/completions/_gpu-rollout"
"$tree/gpu-rollout" completions fish >"$tree/completions/gpu-rollout.fish"
"$tree/gpu-rollout" man "$tree/man/man1" 2>/dev/null
cp "$source/LICENSE" "$tree"
cp "$source/scripts/preview.sh" "$source"/scripts/preview/*.sh "$tree/ci"
"$here/licenses.sh" "$source" "$target" >"$tree/THIRD-PARTY.txt"
"$here/sbom.sh" "$source" "$target" >"$tree.cdx.json"
"$here/check-program.sh" "$tree/gpu-rollout" "$source/charts/gpu-rollout"
