#!/bin/sh
# Signs the files of a release, or an image or chart in a registry, with cosign. Without a key and without
# COSIGN_KEYLESS, it signs nothing and says so.
# Usage: scripts/release/sign.sh DIRECTORY          signs checksums.txt and provenance.json in it
#        scripts/release/sign.sh REFERENCE@DIGEST   signs what a registry has
# Environment:
#   COSIGN_KEY=FILE      sign with this key, and contact no server (COSIGN_PASSWORD: its password)
#   COSIGN_KEYLESS=true  sign with the identity of the workflow, and record it in the transparency log
#   COSIGN=FILE          the program (default: the pinned one)
#   PLAIN_HTTP=true      the registry does not speak HTTPS
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=$1

if [ -n "${COSIGN_KEY:-}" ]; then
  set -- --key "$COSIGN_KEY" --use-signing-config=false --tlog-upload=false
elif [ "${COSIGN_KEYLESS:-}" = true ]; then
  set --
else
  echo "make release: note: not signed, because there is no COSIGN_KEY and no COSIGN_KEYLESS=true" >&2
  exit
fi
cosign=${COSIGN:-$("$here/../../tests/tools/build.sh" cosign)/cosign}
if [ -d "$target" ]; then
  "$cosign" sign-blob --yes "$@" --bundle "$target/checksums.txt.sigstore.json" "$target/checksums.txt"
  "$cosign" attest-blob --yes "$@" --statement "$target/provenance.json" --bundle "$target/provenance.sigstore.json"
  # cosign writes files that only their owner can read.
  chmod 644 "$target"/*.sigstore.json
else
  [ "${PLAIN_HTTP:-}" != true ] || set -- "$@" --allow-http-registry
  "$cosign" sign --yes "$@" "$target"
fi
