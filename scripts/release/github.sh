#!/bin/sh
# Publishes the files of a release on GitHub, for a tag that exists.
# Usage: scripts/release/github.sh TAG
# Environment: GH_TOKEN, REGISTRY, REPOSITORY
set -eu
cd "$(dirname -- "$0")/../.."
tag=$1
out=$PWD/target/dist
version=$(scripts/release/version.sh "$out/source" "$tag")

cat >"$out/notes.md" <<NOTES
\`\`\`sh
curl --proto '=https' -fsSL $REPOSITORY/releases/download/$tag/install.sh | sh
helm install gpu-rollout oci://$REGISTRY/charts/gpu-rollout --version $version --namespace gpu-operator --timeout 62m
\`\`\`

The image of the hook: \`$(cat "$out/files/image.txt")\`
NOTES
# A draft, until all files are there
gh release create "$tag" --draft --verify-tag --title "$version" --notes-file "$out/notes.md" "$out"/files/*
gh release edit "$tag" --draft=false
