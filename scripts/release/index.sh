#!/bin/sh
# Joins images for several architectures into one index, whose digest names all of them. Prints the digest.
# Usage: scripts/release/index.sh LAYOUT TAG IMAGE…   (LAYOUT: the OCI layout to write; IMAGE: an OCI layout
#        with the image for one architecture)
set -eu
layout=$1
tag=$2
shift 2

rm -rf "$layout"
mkdir -p "$layout/blobs/sha256"
# The manifest of each image, with the platform from its configuration
for image in "$@"; do
  blobs=$image/blobs/sha256
  manifest=$(jq --raw-output '.manifests[0].digest | ltrimstr("sha256:")' "$image/index.json")
  config=$(jq --raw-output '.config.digest | ltrimstr("sha256:")' "$blobs/$manifest")
  jq --slurpfile config "$blobs/$config" \
    '.manifests[0] | {mediaType, digest, size, platform: ($config[0] | {architecture, os})}' "$image/index.json"
  cp "$blobs"/* "$layout/blobs/sha256/"
done >"$layout/manifests"
jq --slurp --sort-keys --compact-output --join-output \
  '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: sort_by(.platform.architecture)}' \
  "$layout/manifests" >"$layout/index"
rm "$layout/manifests"

digest=$(sha256sum <"$layout/index")
digest=${digest%% *}
jq --null-input --sort-keys --compact-output --join-output --arg digest "sha256:$digest" --arg tag "$tag" \
  --argjson size "$(wc -c <"$layout/index")" \
  '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: [{
    mediaType: "application/vnd.oci.image.index.v1+json", digest: $digest, size: $size,
    annotations: {"org.opencontainers.image.ref.name": $tag}}]}' >"$layout/index.json"
mv "$layout/index" "$layout/blobs/sha256/$digest"
printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
echo "sha256:$digest"
