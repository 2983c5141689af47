#!/bin/sh
# Builds the image of the hook with the installed Rust toolchain and buildah. Pulls nothing. The same source
# gives the same digest, in any directory. Output:
#   target/image/oci     the image as an OCI layout, tagged with the version
#   target/image/rootfs  its root file system, unpacked
# Usage: scripts/image.sh [PROFILE]   (a cargo profile; default: release)
set -eu
cd "$(dirname -- "$0")/.."
profile=${1:-release}
image=$PWD/target/image

scripts/needs.sh image
triple=$(rustc -vV | sed -n 's/^host: //p')
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)

binary=$(scripts/static.sh "$profile" "$triple" --no-default-features)

# The build context contains only the binary. A separate storage leaves nothing in the user's
# storage.
rm -rf "$image/context" "$image/oci" "$image/rootfs"
mkdir -p "$image/context" "$image/rootfs"
cp "$binary" "$image/context/gpu-rollout"
chmod 755 "$image/context/gpu-rollout"
run_buildah() {
  buildah --storage-driver vfs --root "$image/storage" --runroot "$image/run" "$@"
}
# With a fixed timestamp, and without buildah's label and history, which name its version, the same binary
# gives the same digest.
run_buildah bud --quiet --isolation chroot --timestamp "${SOURCE_DATE_EPOCH:-0}" --identity-label=false --omit-history \
  --build-arg BINARY=prebuilt --build-arg VERSION="$version" --file Dockerfile --tag "gpu-rollout:$version" "$image/context" >/dev/null
run_buildah push --quiet --compression-format gzip --compression-level 9 "gpu-rollout:$version" "oci:$image/oci:$version"
run_buildah rmi --all --force >/dev/null

# Of the blobs, only layers are compressed. Manifest and configuration are JSON.
compressed=0
for blob in "$image"/oci/blobs/sha256/*; do
  if gzip --test "$blob" 2>/dev/null; then
    tar --extract --gzip --file "$blob" --directory "$image/rootfs"
    compressed=$((compressed + $(wc -c <"$blob")))
  fi
done
cmp -s "$binary" "$image/rootfs/gpu-rollout" || {
  echo "make image: target/image/rootfs/gpu-rollout is not the binary that was built" >&2
  exit 1
}

megabytes() { awk -v bytes="$1" 'BEGIN { printf "%.2f MB", bytes / 1e6 }'; }
printf 'gpu-rollout:%s (%s, %s)\n' "$version" "$profile" "$triple"
printf '  binary            %s\n' "$(megabytes "$(wc -c <"$binary")")"
printf '  compressed layer  %s\n' "$(megabytes "$compressed")"
printf '  image             target/image/oci (tag %s)\n' "$version"
printf '  root file system  target/image/rootfs\n'
