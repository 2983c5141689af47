#!/bin/sh
# Prints the version of a source tree, and fails if the program and the chart have different ones, or if a tag
# is given that is not `v` and this version.
# Usage: scripts/release/version.sh SOURCE [TAG]
set -eu
source=$1
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$source/Cargo.toml" | head -n 1)
for key in version appVersion; do
  found=$(sed -n "s/^$key: *//p" "$source/charts/gpu-rollout/Chart.yaml")
  [ "$found" = "$version" ] || {
    echo "scripts/release/version.sh: the program has version $version, but $key in the chart is $found" >&2
    exit 1
  }
done
[ "${2:-v$version}" = "v$version" ] || {
  echo "scripts/release/version.sh: the tag is $2, but the version in Cargo.toml is $version" >&2
  echo "hint: change Cargo.toml and Chart.yaml, or name the tag v$version" >&2
  exit 1
}
echo "$version"
