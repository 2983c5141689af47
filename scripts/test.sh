#!/bin/sh
# `make test`: runs every test that needs only cargo. Then checks that a test asserts each committed
# snapshot.
set -eu
cd "$(dirname -- "$0")/.."
mkdir -p target
asserted=$PWD/target/snapshots-asserted
rm -f "$asserted"

# Without the end-to-end tests, which need more than cargo: `make lint` compiles them, and `make e2e`
# runs them.
INSTA_SNAPSHOT_REFERENCES_FILE=$asserted cargo test --locked --workspace --exclude e2e

# insta writes one path per line, and some paths contain `..`.
[ ! -e "$asserted" ] || xargs -d '\n' realpath --relative-to=. <"$asserted" | LC_ALL=C sort -u >"$asserted.paths"
unused=$(find crates src tests -name '*.snap' | LC_ALL=C sort | LC_ALL=C comm -23 - "$asserted.paths")
if [ -n "$unused" ]; then
  echo "make test: no test asserts these snapshots any more:" >&2
  echo "$unused" >&2
  echo "hint: remove them" >&2
  exit 1
fi
