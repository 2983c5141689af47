#!/bin/sh
# `make release`: builds a release of the last commit. The same commit gives the same files in any directory,
# except for the signatures. Output, all in target/dist:
#   files     what users download: archives of the program, the hook chart, the hook's image, bills of
#             materials, the install script, checksums.txt, the provenance, and signatures if there is a key
#   image     the hook's image for all architectures, as one OCI layout
#   images, programs, source   the parts
# Usage: scripts/release.sh [image | program | assemble]   (default: the three, one after the other)
#   image      the hook's image, for the architecture of this machine
#   program    the program, with the digest of the images in target/dist/images embedded
#   assemble   the files, from the images and programs in target/dist
# Environment, with defaults:
#   REGISTRY=registry.example.com     where nodes pull the image and Helm the chart, as REGISTRY/gpu-rollout and
#                                     oci://REGISTRY/charts/gpu-rollout
#   REPOSITORY=                       URL of the GitHub repository whose releases have the files
#   TARGET=                           target triple of `program` (default: that of this machine)
#   PROFILE=release                   cargo profile
#   COSIGN_KEY=, COSIGN_KEYLESS=      as scripts/release/sign.sh
set -eu
cd "$(dirname -- "$0")/.."
stage=${1:-all}
case $stage in
all | image | program | assemble) ;;
*)
  sed -n '/^# Usage/,/^set/s/^# \{0,1\}//p' "$0" >&2
  exit 2
  ;;
esac
PROFILE=${PROFILE:-release}
TARGET=${TARGET:-$(rustc -vV | sed -n 's/^host: //p')}
# Names of images have no capital letters, but an owner on GitHub may have some.
image=$(echo "${REGISTRY:-registry.example.com}" | tr '[:upper:]' '[:lower:]')/gpu-rollout
out=$PWD/target/dist
source=$out/source
part=scripts/release

case $stage in all | image) scripts/needs.sh image release ;; *) scripts/needs.sh release ;; esac
SOURCE_DATE_EPOCH=$(git log --max-count 1 --format=%ct)
export SOURCE_DATE_EPOCH TARGET PROFILE
say() { echo "make release: $*"; }

say "exporting commit $(git rev-parse --short HEAD)"
# Nothing of an earlier release is left.
[ "$stage" != all ] || rm -rf "$out"
mkdir -p "$out"
"$part/source.sh" "$source"
version=$("$part/version.sh" "$source")

build_image() {
  say "building the hook's image"
  "$source/scripts/image.sh" "$PROFILE"
  oci=$source/target/image/oci
  manifest=$(jq --raw-output '.manifests[0].digest | ltrimstr("sha256:")' "$oci/index.json")
  config=$(jq --raw-output '.config.digest | ltrimstr("sha256:")' "$oci/blobs/sha256/$manifest")
  architecture=$(jq --raw-output .architecture "$oci/blobs/sha256/$config")
  mkdir -p "$out/images"
  rm -rf "$out/images/$architecture"
  cp -R "$oci" "$out/images/$architecture"
  "$part/sbom.sh" "$source" "$TARGET" --no-default-features >"$out/images/$architecture.cdx.json"
}

# The images of all architectures are one index. Everything else names its digest.
embed_digest() {
  [ -d "$out/images" ] || {
    echo "make release: there is no image: run scripts/release.sh image" >&2
    exit 1
  }
  layout=$out/image/gpu-rollout-image-$version
  digest=$("$part/index.sh" "$layout" "$version" "$out"/images/*/)
  "$part/stamp.sh" "$source/charts/gpu-rollout" "$image" "$digest"
}

build_program() {
  say "building the program for $TARGET"
  "$part/program.sh" "$source" "$TARGET" "$PROFILE" "$out/programs"
}

assemble() {
  say "assembling the files"
  files=$out/files
  rm -rf "$files"
  mkdir -p "$files"
  for program in "$out"/programs/gpu-rollout-*/; do
    "$part/archive.sh" "${program%/}" "$files"
  done
  cp "$out"/programs/*.cdx.json "$files"
  for bill in "$out"/images/*.cdx.json; do
    cp "$bill" "$files/gpu-rollout-image-$version-$(basename -- "$bill")"
  done
  "$part/pack.sh" "$files/gpu-rollout-$version.tgz" "$source/charts/gpu-rollout"
  "$part/pack.sh" "$files/gpu-rollout-image-$version.tar.gz" "$layout"
  echo "$image@$digest" >"$files/image.txt"
  "$part/install-script.sh" "$source/scripts/install.sh" "$version" "${REPOSITORY:-}" >"$files/install.sh"
  (cd "$files" && sha256sum -- *) >"$out/checksums.txt"
  LC_ALL=C sort --key 2 "$out/checksums.txt" >"$files/checksums.txt"
  rm "$out/checksums.txt"
  "$part/provenance.sh" "$source" "$files/checksums.txt" "$image" "$digest" >"$files/provenance.json"
  "$part/sign.sh" "$files"
}

case $stage in all | image) build_image ;; esac
case $stage in all | program | assemble) embed_digest ;; esac
case $stage in all | program) build_program ;; esac
case $stage in all | assemble)
  assemble
  say "$image@$digest"
  say "target/dist/files:"
  (cd "$out/files" && wc -c -- * | sed '$d')
  ;;
esac
