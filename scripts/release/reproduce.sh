#!/bin/sh
# `make reproducible`: builds a release of the last commit twice, in two directories with different paths,
# settings and times, and fails if a file, the image or a bundle differs.
# Usage: scripts/release/reproduce.sh [PROFILE]   (a cargo profile; default: release)
set -eu
cd "$(dirname -- "$0")/../.."
profile=${1:-release}
work=$PWD/target/reproduce

scripts/needs.sh image release
rm -rf "$work"
mkdir -p "$work"

# release DIRECTORY: builds in a clone, renders every recipe for every deployer, and lists all digests
release() {
  git -c advice.detachedHead=false clone --quiet --no-hardlinks . "$1"
  (cd "$1" && PROFILE=$profile REGISTRY=registry.example.com COSIGN_KEY='' COSIGN_KEYLESS='' scripts/release.sh)
  set -- "$1" "$1"/target/dist/programs/gpu-rollout-*/gpu-rollout
  for recipe in bundles/recipes/*.yaml; do
    set -- "$@" --recipe "$(basename -- "$recipe" .yaml)"
  done
  render "$@"
  {
    cat "$1/target/dist/files/checksums.txt"
    sha256sum <"$1/target/dist/files/provenance.json"
    (cd "$1/target/bundles" && find . -type f -exec sha256sum {} + | LC_ALL=C sort --key 2)
  } >"$1.digests"
}

# render DIRECTORY PROGRAM OPTION…
render() {
  bundles=$1/target/bundles
  program=$2
  shift 2
  "$program" bundle render "$@" --deployer all --repo https://git.example.com/fleet.git --output "$bundles" \
    >"$bundles.log" 2>&1 || {
    cat "$bundles.log" >&2
    exit 1
  }
}

release "$work/a"
# A user with other settings: another home of cargo, file permissions, time zone and language
mkdir "$work/cargo-home"
for entry in "${CARGO_HOME:-$HOME/.cargo}"/*; do
  ln -s "$entry" "$work/cargo-home"
done
(
  umask 077
  CARGO_HOME=$work/cargo-home TZ=Asia/Kolkata LC_ALL=C.UTF-8
  export CARGO_HOME TZ LC_ALL
  release "$work/another/deeper/place"
)
diff "$work/a.digests" "$work/another/deeper/place.digests" || {
  echo "make reproducible: the lines above differ between $work/a and $work/another/deeper/place" >&2
  exit 1
}
echo "make reproducible: $(wc -l <"$work/a.digests") digests are the same"
