#!/bin/sh
# Packs a directory into an archive whose bytes depend only on names, contents and executable bits of its
# files, and on SOURCE_DATE_EPOCH.
# Usage: scripts/release/pack.sh ARCHIVE DIRECTORY   (in the archive, the directory has its last name)
set -eu
archive=$1
directory=$2

LC_ALL=C tar --create --file "$archive.tar" --format ustar --sort name --mtime "@$SOURCE_DATE_EPOCH" \
  --owner 0 --group 0 --numeric-owner --mode u=rwX,go=rX \
  --directory "$(dirname -- "$directory")" "$(basename -- "$directory")"
# Without the name and the time of the file
gzip --no-name --best --stdout "$archive.tar" >"$archive"
rm "$archive.tar"
