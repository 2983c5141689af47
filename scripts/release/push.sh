#!/bin/sh
# Pushes the image and the chart of a release to the registry, and signs both. First log in with
# `cosign login`. The same release has the same digests in every registry.
# Usage: scripts/release/push.sh
# Environment: REGISTRY, COSIGN_KEY and COSIGN_KEYLESS as scripts/release.sh;
#              PLAIN_HTTP=true if the registry does not speak HTTPS; HELM: the program (default: the pinned one)
set -eu
cd "$(dirname -- "$0")/../.."
out=$PWD/target/dist
helm=${HELM:-$(tests/tools/build.sh helm4)/helm4}
part=scripts/release
version=$("$part/version.sh" "$out/source")
image=$(cat "$out/files/image.txt")
chart=$out/files/gpu-rollout-$version.tgz

scripts/needs.sh push
plain=
[ "${PLAIN_HTTP:-}" != true ] || plain=yes
skopeo copy --quiet --all --preserve-digests ${plain:+--dest-tls-verify=false} \
  "oci:$out/image/gpu-rollout-image-$version:$version" "docker://${image%@*}:$version"
echo "pushed $image"
"$part/sign.sh" "$image"

# Helm writes the time of the file, as a local time, into the manifest.
touch -d "@$(git log --max-count 1 --format=%ct)" "$chart"
TZ=UTC "$helm" push "$chart" "oci://$REGISTRY/charts" ${plain:+--plain-http} >"$out/helm-push" 2>&1 || {
  cat "$out/helm-push" >&2
  exit 1
}
digest=$(sed -n 's/^Digest: //p' "$out/helm-push")
echo "pushed $REGISTRY/charts/gpu-rollout@$digest"
"$part/sign.sh" "$REGISTRY/charts/gpu-rollout@$digest"
