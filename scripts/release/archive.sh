#!/bin/sh
# Packs the directory of a program (scripts/release/program.sh) into an archive for download.
# Usage: scripts/release/archive.sh PROGRAM DIRECTORY
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
program=$1
directory=$2

# An upload between the jobs of a workflow loses executable bits and links.
chmod 755 "$program/gpu-rollout" "$program"/ci/*.sh
# kubectl runs it as `kubectl gpu-rollout`: in names of plugins, it replaces dashes by underscores.
ln -sf gpu-rollout "$program/kubectl-gpu_rollout"
"$here/pack.sh" "$directory/$(basename -- "$program").tar.gz" "$program"
