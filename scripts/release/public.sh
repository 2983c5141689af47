#!/bin/sh
# Checks that the image and the chart of a release, which scripts/release/push.sh pushed, can be pulled without a
# login. Registries may keep a new name private until its owner publishes it.
# Usage: scripts/release/public.sh
set -eu
cd "$(dirname -- "$0")/../.."
out=$PWD/target/dist

scripts/needs.sh push
image=$(cat "$out/files/image.txt")
chart=$(cat "$out/chart.txt")
private=
for reference in "$image" "$chart"; do
  skopeo inspect --no-creds --raw "docker://$reference" >/dev/null || {
    echo "scripts/release/public.sh: cannot pull ${reference%@*} without a login" >&2
    private=yes
  }
done
[ -z "$private" ] || {
  echo "hint: make the packages above public (docs/release.md, Prepare the repository), and run this job again" >&2
  exit 1
}
