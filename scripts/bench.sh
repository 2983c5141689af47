#!/bin/sh
# `make bench`: what the program costs, measured here and now; prints, and judges nothing.
#   1. one call as a process: time, peak memory, size of the binary (release profile; needs only cargo)
#   2. size of the image (needs buildah)
#   3. the hook on a real API server with 1,000 nodes: time with nothing to do, memory (needs what `make e2e` needs)
# Usage: scripts/bench.sh [ROUNDS]
set -eu
cd "$(dirname -- "$0")/.."
title() { printf '\n== %s\n\n' "$*"; }

printf '%s, %s processors, load %s\n' "$(uname -srm)" "$(nproc)" "$(cut -d' ' -f1 /proc/loadavg)"
title "one call as a process"
cargo bench --quiet --locked --bench process -- "$@"

title "the image"
if command -v buildah >/dev/null; then scripts/image.sh release; else echo "not measured: buildah is not installed"; fi
