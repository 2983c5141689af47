#!/bin/sh
# `make bench`: measures the program on this machine and prints the results.
#   1. sizes of the image and its binary (needs buildah)
#   2. time and peak memory of one call as a process, of many bundles in one call, and of
#      `simulate` for large fleets
#   3. memory of the hook's caches for 10,000 nodes
#   4. time of one decision for 10,000 nodes after a change of one node, in each mode
#   5. the hook on a real API server (needs the programs of `make e2e`):
#      - 3 and 1,000 nodes: time with nothing to do, and memory
#      - mode `drive` on 10 and 100 nodes: requests, processor time, and how much longer an upgrade
#        takes than its drivers do
#      - 10 nodes one by one in `drive`, `assist` and `steer`: where the time between two nodes goes
#      - the accuracy of `plan` where NVIDIA's controller upgrades (five fleets, 45 minutes)
# Usage: scripts/bench.sh
# Environment, with defaults: GPU_ROLLOUT_BENCH_ROUNDS=100, GPU_ROLLOUT_BENCH_NODES=1000
set -eu
cd "$(dirname -- "$0")/.."
title() { printf '\n== %s\n\n' "$*"; }

# measured LOG FROM TO COMMAND…: runs the command and prints the lines of its table, or all output
# if it fails
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
  echo "skipped: programs are missing"
fi
# The program in the image has only the hook, so the program for workstations is built as well.
triple=$(scripts/program-target.sh)
printf 'the program for workstations (%s)\n' "$triple"
program=$(scripts/static.sh release "$triple")
# A copy, as an installation is one: of a file as a linker or `strip` has written it, the kernel maps smaller
# pieces, which was 6 percent of a render.
GPU_ROLLOUT_PROGRAM=$PWD/target/bench-gpu-rollout
cp "$program" "$GPU_ROLLOUT_PROGRAM"
export GPU_ROLLOUT_PROGRAM

title "one process per call"
# In memory, if it has room for 100,000 files: the disk is not what is measured.
scratch=${TMPDIR:-/tmp}
room=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
[ "${room:-0}" -lt 2000000 ] || scratch=/dev/shm
measured bench-process.log ' rounds each' '^the binary' env TMPDIR="$scratch" cargo bench --locked --bench cost

title "the hook's caches"
measured bench-memory.log ' nodes of ' 'listed again' cargo bench --locked -p hook --bench memory

title "a decision"
measured bench-decide.log ' nodes, one of which' '^end$' cargo bench --locked -p hook --bench decide

title "the hook on a real API server"
if [ -n "$rootfs" ] && scripts/needs.sh stack scenarios; then
  GPU_ROLLOUT_ROOTFS=$rootfs measured bench-hook.log '^hook  ' '^wall:' tests/e2e/run.sh scenarios::cost::
  GPU_ROLLOUT_ROOTFS=$rootfs GPU_ROLLOUT_E2E_THREADS=1 measured bench-drive.log '^\(drive\|assist\|steer\)\(  \|, \)' '^pace.*: told' tests/e2e/run.sh scenarios::pace::
  GPU_ROLLOUT_ROOTFS=$rootfs GPU_ROLLOUT_E2E_THREADS=1 measured bench-plan.log '^assist  ' '^$' tests/e2e/run.sh scenarios::calibration::
else
  echo "skipped: programs are missing"
fi
