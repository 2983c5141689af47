#!/bin/sh
# `make soak`: the engine in ten thousand random worlds, in large fleets, and searched exhaustively for more nodes than `make test` does.
# RUNS=n runs so many worlds instead.
set -eu
cd "$(dirname -- "$0")/.."
exec cargo test --locked --profile soak --test engine soak_ -- --ignored --nocapture --test-threads 2
