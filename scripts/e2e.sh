#!/bin/sh
# `make e2e`: what needs more than cargo. Real Helm on the charts, then the scenarios of tests/e2e with the hook's own image.
# The pinned programs are built once with Go (tests/tools/build.sh) and cached outside the checkout.
# Usage: scripts/e2e.sh PROFILE [--full | FILTER…]   (PROFILE: cargo profile of the image)
set -eu
cd "$(dirname -- "$0")/.."
profile=$1
shift

# With a filter, a scenario itself checks what only some scenarios need.
case ${1:---full} in
--full) scripts/needs.sh image stack scenarios e2e ;;
*) scripts/needs.sh image stack scenarios ;;
esac
# The release before meets this one: its chart and its image, as this repository has them.
build_previous=
if [ "${1:-}" = --full ] && [ -z "${GPU_ROLLOUT_PREVIOUS:-}" ]; then
  previous=$(cat tests/e2e/previous-release)
  GPU_ROLLOUT_PREVIOUS=$PWD/target/previous/$previous
  export GPU_ROLLOUT_PREVIOUS
  if [ ! -x "$GPU_ROLLOUT_PREVIOUS/target/image/rootfs/gpu-rollout" ]; then
    git cat-file -e "$previous^{commit}" 2>/dev/null || {
      echo "make e2e-full: commit $previous, the release before, is not in this clone" >&2
      echo "hint: git fetch --unshallow" >&2
      exit 1
    }
    mkdir -p "$GPU_ROLLOUT_PREVIOUS"
    git archive "$previous" | tar -x -C "$GPU_ROLLOUT_PREVIOUS"
    build_previous=yes
  fi
fi

tests/tools/build.sh >/dev/null
[ "${1:-}" != --full ] || tests/tools/build.sh other-versions >/dev/null
scripts/image.sh "$profile"
# Without a filter everything: the tests that only need Helm first, they are over in seconds.
[ "${1:---full}" != --full ] || cargo test --locked -p gpu-rollout -p bundle --test chart --test render -- --ignored
[ -z "$build_previous" ] || "$GPU_ROLLOUT_PREVIOUS/scripts/image.sh" "$profile"
GPU_ROLLOUT_ROOTFS=$PWD/target/image/rootfs exec tests/e2e/run.sh "$@"
