#!/bin/sh
# `make bench`: what the program costs, measured here and now; prints, and judges nothing.
#   1. sizes of the image and its binary (needs buildah)
#   2. one call as a process, and many bundles in one: time and peak memory
#   3. what the hook holds of 10,000 nodes
#   4. what one decision costs among 10,000 nodes when one of them has changed, in each mode
#   5. the hook on a real API server (needs what `make e2e` needs): 3 and 1,000 nodes, time with nothing to do, memory; and mode `drive` on
#      10 and 100 nodes: requests, processor time, and how much longer an upgrade takes than its drivers do; and how near `plan` comes where
#      NVIDIA's controller upgrades (five fleets, three quarters of an hour)
# Usage: scripts/bench.sh   (GPU_ROLLOUT_BENCH_ROUNDS=100, GPU_ROLLOUT_BENCH_NODES=1000, GPU_ROLLOUT_BENCH_DRIVE_NODES=100)
set -eu
cd "$(dirname -- "$0")/.."
title() { printf '\n== %s\n\n' "$*"; }

# measured LOG FROM TO COMMAND…: runs it, shows the lines of its table, and everything if it fails.
measured() {
  log=target/$1
  from=$2
  to=$3
  shift 3
  "$@" >"$log" 2>&1 || {
    cat "$log" >&2
    exit 1
  }
  sed -n "/$from/,/$to/p" "$log"
}

printf '%s, %s processors, load %s\n' "$(uname -srm)" "$(nproc)" "$(cut -d' ' -f1 /proc/loadavg)"
mkdir -p target
title "the image (release)"
rootfs=
if scripts/needs.sh image; then
  scripts/image.sh release
  rootfs=$PWD/target/image/rootfs
else
  echo "not measured: programs are missing"
fi
# The image has only the hook.
cargo build --quiet --release --locked
GPU_ROLLOUT_PROGRAM=${CARGO_TARGET_DIR:-$PWD/target}/release/gpu-rollout
export GPU_ROLLOUT_PROGRAM

title "one call as a process"
measured bench-process.log ' rounds each' '^the binary' cargo bench --locked --bench cost

title "the hook's caches"
measured bench-memory.log ' nodes of ' 'listed anew' cargo bench --locked -p hook --bench memory

title "a decision"
measured bench-decide.log ' nodes, one of which' '^end$' cargo bench --locked -p hook --bench decide

title "the hook on a real API server"
if [ -n "$rootfs" ] && scripts/needs.sh stack scenarios; then
  GPU_ROLLOUT_ROOTFS=$rootfs measured bench-hook.log '^hook  ' '^wall:' tests/e2e/run.sh scenarios::cost::
  GPU_ROLLOUT_ROOTFS=$rootfs GPU_ROLLOUT_E2E_THREADS=1 measured bench-drive.log '^drive  ' '^requests without' tests/e2e/run.sh scenarios::pace::
  GPU_ROLLOUT_ROOTFS=$rootfs GPU_ROLLOUT_E2E_THREADS=1 measured bench-plan.log '^assist  ' '^$' tests/e2e/run.sh scenarios::calibration::
else
  echo "not measured: programs are missing"
fi
