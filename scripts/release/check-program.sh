#!/bin/sh
# Checks that a bundle of the program has the image that its chart names, without `--hook-image`.
# Usage: scripts/release/check-program.sh PROGRAM CHART
set -eu
program=$1
values=$2/values.yaml
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# value KEY: a value of the chart's `rollout.image`, as scripts/release/stamp.sh writes it
value() { sed -n "s/^    $1: \"\(..*\)\"\$/\1/p" "$values" | head -n 1; }
image=$(value repository)@$(value digest)

"$program" bundle render --recipe base --deployer helm --output "$place/bundle" 2>"$place/messages" || {
  cat "$place/messages" >&2
  exit 1
}
"$program" bundle verify "$place/bundle" 2>/dev/null
"$program" bundle images "$place/bundle" --output json 2>/dev/null >"$place/images"
jq --exit-status --arg image "$image" \
  '[.images[] | "\(.repository)@\(.digest // "")"] | index($image) != null' "$place/images" >/dev/null || {
  echo "scripts/release/check-program.sh: bundles of $program do not have the image $image" >&2
  exit 1
}
