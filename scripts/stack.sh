#!/bin/sh
# `make stack`: the processes of the test stack, left running with a kubeconfig until Ctrl-C: API server, etcd, controllers, scheduler, nodes
# whose kubelets are kwok, NVIDIA's operator and charts played, and worker nodes that run the hook's own image. docs/tutorial.md uses it.
# Usage: scripts/stack.sh PROFILE   (cargo profile of the image)
set -eu
cd "$(dirname -- "$0")/.."

command -v go >/dev/null || {
  echo "make stack: go is missing; the pinned programs (API server, etcd, kwok, Helm …) are built with it" >&2
  echo "hint: install Go $(sed -n 's/^go //p' tests/tools/kubernetes/go.mod) or later" >&2
  exit 1
}
echo "Building what is missing: half an hour the first time, seconds after that."
tests/tools/build.sh >/dev/null
scripts/image.sh "$1" >/dev/null
cargo test --quiet --locked -p e2e --no-run
GPU_ROLLOUT_ROOTFS=$PWD/target/image/rootfs exec tests/e2e/run.sh --exact scenarios::local::stays_until_it_is_told_to_end
