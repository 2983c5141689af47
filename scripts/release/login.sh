#!/bin/sh
# Logs in to a registry, for cosign, Helm and skopeo. Reads the password from standard input.
# Usage: scripts/release/login.sh HOST USER
# Environment: COSIGN=FILE   the program (default: the pinned one)
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cosign=${COSIGN:-$("$here/../../tests/tools/build.sh" cosign)/cosign}
# All three read the file that this writes: ~/.docker/config.json
exec "$cosign" login "$1" --username "$2" --password-stdin
