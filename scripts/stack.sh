#!/bin/sh
# `make stack`: runs the processes of the test stack until Ctrl-C, and writes a kubeconfig: API
# server, etcd, controllers, scheduler, nodes with kwok as kubelet, stand-ins for NVIDIA's operator
# and charts, and worker nodes that run the hook's own image. docs/tutorial.md uses it.
# Usage: scripts/stack.sh PROFILE   (cargo profile of the image)
set -eu
cd "$(dirname -- "$0")/.."

scripts/needs.sh image stack
echo "Building missing parts (half an hour on 2 cores the first time, seconds after that)"
tests/tools/build.sh stack >/dev/null
scripts/image.sh "$1" >/dev/null
cargo test --quiet --locked -p e2e --no-run
GPU_ROLLOUT_ROOTFS=$PWD/target/image/rootfs exec tests/e2e/run.sh --stack
