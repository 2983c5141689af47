#!/bin/sh
# Prints the version of a source tree, and fails if the program and the chart have different ones. With a tag, it
# also fails if the tag is not `v` and this version, or if CHANGELOG.md has no section for the version.
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
[ -z "${2:-}" ] || awk -v version="$version" '
  $1 == "##" && $2 == version && $3 == "-" && $4 ~ /^[0-9-]+$/ { found = 1 }
  END { exit !found }
' "$source/CHANGELOG.md" || {
  echo "scripts/release/version.sh: CHANGELOG.md has no section for version $version" >&2
  echo "hint: write the heading \"## $version - YEAR-MONTH-DAY\" below \"## Unreleased\"" >&2
  exit 1
}
echo "$version"
