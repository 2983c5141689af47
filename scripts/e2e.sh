#!/bin/sh
# `make e2e`: what needs more than cargo. Real Helm on the charts, then the scenarios of tests/cluster with the hook's own image.
# The pinned programs are built once with Go (tests/tools/build.sh) and cached outside the checkout.
# Usage: scripts/e2e.sh PROFILE [--full | FILTER…]   (PROFILE: cargo profile of the image)
set -eu
cd "$(dirname -- "$0")/.."
profile=$1
shift

command -v go >/dev/null || {
  echo "make e2e: go is missing; the pinned programs (API server, etcd, kwok, Helm …) are built with it" >&2
  echo "hint: install Go $(sed -n 's/^go //p' tests/tools/kubernetes/go.mod) or later" >&2
  exit 1
}
tests/tools/build.sh >/dev/null
scripts/image.sh "$profile"
# Without a filter everything: the tests that only need Helm first, they are over in seconds.
[ "${1:---full}" != --full ] || cargo test --locked --test chart --test render -- --ignored
GPU_ROLLOUT_ROOTFS=$PWD/target/image/rootfs exec tests/cluster/run.sh "$@"
