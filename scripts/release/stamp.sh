#!/bin/sh
# Writes the image of the hook into the default values of the hook chart. The program embeds this chart, so
# that bundles and the chart alone use the image of their own release.
# Usage: scripts/release/stamp.sh CHART REPOSITORY DIGEST
set -eu
values=$1/values.yaml
repository=$2
digest=$3

case $repository in
*[!a-z0-9./:_-]* | '')
  echo "scripts/release/stamp.sh: not the name of an image: $repository" >&2
  exit 2
  ;;
esac
case $digest in
sha256:*[!0-9a-f]*) valid= ;;
sha256:*) valid=$((${#digest} == 71)) ;;
*) valid= ;;
esac
[ "$valid" = 1 ] || {
  echo "scripts/release/stamp.sh: expected sha256: and 64 hexadecimal digits, found: $digest" >&2
  exit 2
}
awk -v repository="$repository" -v digest="$digest" '
  /^  [a-z]/ { inside = $0 == "  image:" }
  inside && $1 == "repository:" { $0 = "    repository: \"" repository "\""; written++ }
  inside && $1 == "digest:" { $0 = "    digest: \"" digest "\""; written++ }
  { print }
  END { exit written != 2 }
' "$values" >"$values.new" || {
  echo "scripts/release/stamp.sh: $values has no rollout.image.repository or digest" >&2
  exit 1
}
mv "$values.new" "$values"
