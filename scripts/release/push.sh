#!/bin/sh
# Pushes the image and the chart of a release to the registry, and signs both. First log in with
# `cosign login`. The registry is that of the image, for which the release was built. A version that the registry
# has with another content is never replaced. Writes the reference of the chart to target/dist/chart.txt.
# Usage: scripts/release/push.sh
# Environment: COSIGN_KEY and COSIGN_KEYLESS as scripts/release.sh;
#              PLAIN_HTTP=true if the registry does not speak HTTPS; HELM: the program (default: the pinned one)
set -eu
cd "$(dirname -- "$0")/../.."
out=$PWD/target/dist
helm=${HELM:-$(tests/tools/build.sh helm4)/helm4}
part=scripts/release
version=$("$part/version.sh" "$out/source")
image=$(cat "$out/files/image.txt")
charts=${image%/gpu-rollout@*}/charts
chart=$out/files/gpu-rollout-$version.tgz

scripts/needs.sh push
plain=
[ "${PLAIN_HTTP:-}" != true ] || plain=yes

# read_manifest NAME: writes what the registry has of this version to target/dist/manifest, which is empty if there
# is nothing
read_manifest() {
  ! skopeo inspect --raw ${plain:+--tls-verify=false} "docker://$1:$version" >"$out/manifest" 2>"$out/messages" || return 0
  case $(cat "$out/messages") in
  # Some registries deny access to a name that they do not have yet.
  *"manifest unknown"* | *"name unknown"* | *"not found"* | *denied* | *unauthorized*) : >"$out/manifest" ;;
  *)
    cat "$out/messages" >&2
    exit 1
    ;;
  esac
}

# refuse NAME
refuse() {
  echo "scripts/release/push.sh: $1:$version exists with another content; nothing was pushed" >&2
  echo "hint: a version that users may have never changes: release a new version" >&2
  exit 1
}

read_manifest "${image%@*}"
sum=$(sha256sum <"$out/manifest")
[ ! -s "$out/manifest" ] || [ "sha256:${sum%% *}" = "${image#*@}" ] || refuse "${image%@*}"
read_manifest "$charts/gpu-rollout"
# The manifest of a chart names its archive by the digest.
sum=$(sha256sum <"$chart")
[ ! -s "$out/manifest" ] || grep -q "\"sha256:${sum%% *}\"" "$out/manifest" || refuse "$charts/gpu-rollout"

skopeo copy --quiet --all --preserve-digests ${plain:+--dest-tls-verify=false} \
  "oci:$out/image/gpu-rollout-image-$version:$version" "docker://${image%@*}:$version"
echo "pushed $image"
"$part/sign.sh" "$image"

# Helm writes the time of the file, as a local time, into the manifest.
touch -d "@$(git log --max-count 1 --format=%ct)" "$chart"
TZ=UTC "$helm" push "$chart" "oci://$charts" ${plain:+--plain-http} >"$out/helm-push" 2>&1 || {
  cat "$out/helm-push" >&2
  exit 1
}
digest=$(sed -n 's/^Digest: //p' "$out/helm-push")
echo "$charts/gpu-rollout@$digest" >"$out/chart.txt"
echo "pushed $charts/gpu-rollout@$digest"
"$part/sign.sh" "$charts/gpu-rollout@$digest"
