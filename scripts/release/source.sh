#!/bin/sh
# Exports the last commit, which is what a release contains: no uncommitted change and no leftover of another
# build is part of it.
# Usage: scripts/release/source.sh DIRECTORY   (the directory is replaced)
set -eu
cd "$(dirname -- "$0")/../.."
directory=$1

[ -z "$(git status --porcelain)" ] || echo "make release: note: uncommitted changes are not part of the release" >&2
rm -rf "$directory"
mkdir -p "$directory"
git archive --output "$directory.tar" HEAD
tar --extract --file "$directory.tar" --directory "$directory"
rm "$directory.tar"
