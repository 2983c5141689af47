#!/bin/sh
# `make soak`: runs the engine in ten thousand random worlds, in large fleets, and in an exhaustive
# search with more nodes than in `make test`. Then runs mode `drive` on the in-process server, and
# kills and disturbs it at every call of every story. Then measures what the hook costs for each
# node, up to a thousand nodes on a real API server (needs the programs of `make e2e`). Then fuzzes
# everything that reads text from outside (scripts/fuzz.sh).
# RUNS=N sets the number of worlds. STORY=WORDS runs only stories with these words in their names.
# NODES=N sets the number of nodes of the largest measured fleet.
# FUZZ=N sets the number of inputs for each fuzz target.
set -eu
cd "$(dirname -- "$0")/.."
cargo test --locked --profile soak -p simulator -p hook --test engine --test server soak_ -- --ignored --nocapture --test-threads 2
if scripts/needs.sh image stack scenarios; then
  scripts/image.sh release
  GPU_ROLLOUT_ROOTFS=$PWD/target/image/rootfs GPU_ROLLOUT_E2E_THREADS=1 GPU_ROLLOUT_SOAK_NODES=${NODES:-1000} \
    tests/e2e/run.sh scenarios::scale::
else
  echo "skipped: the cost of large fleets, because programs are missing"
fi
scripts/fuzz.sh "${FUZZ:-1000000}"
