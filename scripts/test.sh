#!/bin/sh
# `make test`: every test that needs only cargo, then whether each committed snapshot is still asserted by one of them.
set -eu
cd "$(dirname -- "$0")/.."
mkdir -p target
asserted=$PWD/target/snapshots-asserted
rm -f "$asserted"

INSTA_SNAPSHOT_REFERENCES_FILE=$asserted cargo test --locked --workspace

# insta writes one path a line, some with `..` in the middle.
[ ! -e "$asserted" ] || xargs -d '\n' realpath --relative-to=. <"$asserted" | LC_ALL=C sort -u >"$asserted.paths"
unused=$(find crates src tests -name '*.snap' | LC_ALL=C sort | LC_ALL=C comm -23 - "$asserted.paths")
if [ -n "$unused" ]; then
  echo "make test: no test asserts these snapshots any more:" >&2
  echo "$unused" >&2
  echo "hint: remove them" >&2
  exit 1
fi
