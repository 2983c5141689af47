#!/bin/sh
# `make soak`: runs the engine in ten thousand random worlds, in large fleets, and in an exhaustive
# search with more nodes than in `make test`. Then runs mode `drive` on the in-process server, and
# kills and disturbs it at every call of every story. Then fuzzes everything that reads text from
# outside (scripts/fuzz.sh).
# RUNS=N sets the number of worlds. STORY=WORDS runs only stories with these words in their names.
# FUZZ=N sets the number of inputs for each fuzz target.
set -eu
cd "$(dirname -- "$0")/.."
cargo test --locked --profile soak -p simulator -p hook --test engine --test server soak_ -- --ignored --nocapture --test-threads 2
scripts/fuzz.sh "${FUZZ:-1000000}"
