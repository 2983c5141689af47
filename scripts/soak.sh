#!/bin/sh
# `make soak`: the engine in ten thousand random worlds, in large fleets, and searched exhaustively for more nodes than `make test` does.
# Then mode `drive` on the in-process server, killed and disturbed at every call of every story.
# RUNS=n runs so many worlds instead; STORY=words only the stories with these words in their names.
set -eu
cd "$(dirname -- "$0")/.."
exec cargo test --locked --profile soak -p simulator -p hook --test engine --test server soak_ -- --ignored --nocapture --test-threads 2
