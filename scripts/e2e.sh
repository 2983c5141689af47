#!/bin/sh
# `make e2e`: runs the tests that need more than cargo: real Helm on the charts, then the scenarios
# of tests/e2e with the hook's own image. tests/tools/build.sh builds the pinned programs once with
# Go and caches them outside the checkout.
# Usage: scripts/e2e.sh PROFILE [--full | --rest | FILTER…]   (PROFILE: cargo profile of the image;
#        --full, --rest: as tests/e2e/run.sh)
set -eu
cd "$(dirname -- "$0")/.."
profile=$1
shift

# With a filter, each scenario checks for the programs that only some scenarios need.
case ${1:---full} in
--full | --rest) scripts/needs.sh image stack scenarios e2e ;;
*) scripts/needs.sh image stack scenarios ;;
esac
# Some scenarios run the previous release together with this one. Its chart and image come from the
# history of this repository.
full=
case ${1:-} in --full | --rest) full=yes ;; esac
build_previous=
if [ -n "$full" ] && [ -z "${GPU_ROLLOUT_PREVIOUS:-}" ]; then
  previous=$(cat tests/e2e/previous-release)
  GPU_ROLLOUT_PREVIOUS=$PWD/target/previous/$previous
  export GPU_ROLLOUT_PREVIOUS
  if [ ! -x "$GPU_ROLLOUT_PREVIOUS/target/image/rootfs/gpu-rollout" ]; then
    git cat-file -e "$previous^{commit}" 2>/dev/null || {
      echo "make e2e-full, e2e-rest: commit $previous (the previous release) is not in this clone" >&2
      echo "hint: git fetch --unshallow" >&2
      exit 1
    }
    mkdir -p "$GPU_ROLLOUT_PREVIOUS"
    git archive "$previous" | tar -x -C "$GPU_ROLLOUT_PREVIOUS"
    build_previous=yes
  fi
fi

# A scenario installs a release of the last commit from a registry, whose address is a part of the
# release. Unlike the ports of the other scenarios, this one must be known before the release is built.
build_release=
if [ -n "$full" ] && [ -z "${GPU_ROLLOUT_RELEASED:-}" ]; then
  GPU_ROLLOUT_RELEASED=127.0.0.1:11999
  export GPU_ROLLOUT_RELEASED
  build_release=yes
fi

tests/tools/build.sh >/dev/null
[ -z "$full" ] || tests/tools/build.sh full >/dev/null
scripts/image.sh "$profile"
# Without a filter, first run the tests that need only Helm, git and jq: they take seconds. mdBook is
# built before the scenarios run, because many of them measure time.
if [ "${1:---full}" = --full ]; then
  cargo test --locked --workspace --exclude e2e --test chart --test render --test release -- --ignored
  tests/tools/mdbook.sh >/dev/null
fi
[ -z "$build_release" ] || REGISTRY=$GPU_ROLLOUT_RELEASED PROFILE=$profile COSIGN_KEY='' COSIGN_KEYLESS='' scripts/release.sh
[ -z "$build_previous" ] || "$GPU_ROLLOUT_PREVIOUS/scripts/image.sh" "$profile"
GPU_ROLLOUT_ROOTFS=$PWD/target/image/rootfs exec tests/e2e/run.sh "$@"
