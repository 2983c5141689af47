#!/bin/sh
# Publishes the files of a release on GitHub, for a tag that exists, after scripts/release/push.sh.
# Usage: scripts/release/github.sh TAG
# Environment: GH_TOKEN, REPOSITORY
set -eu
cd "$(dirname -- "$0")/../.."
tag=$1
out=$PWD/target/dist
version=$(scripts/release/version.sh "$out/source" "$tag")
image=$(cat "$out/files/image.txt")
chart=$(cat "$out/chart.txt")

cat >"$out/notes.md" <<NOTES
\`\`\`sh
curl --proto '=https' -fsSL $REPOSITORY/releases/download/$tag/install.sh | sh
helm install gpu-rollout oci://${chart%@*} --version $version --namespace gpu-operator --timeout 62m
\`\`\`

* The image of the hook: \`$image\`
* The hook chart: \`$chart\`
NOTES
# gh uploads the files to a draft, and publishes it when all of them are there. If an upload fails, gh deletes the
# draft. It refuses a tag that has a published release.
gh release create "$tag" --verify-tag --title "$version" --notes-file "$out/notes.md" "$out"/files/*
