#!/bin/sh
# Prints the provenance of a release (in-toto statement, SLSA provenance v1): which commit, toolchain and
# builder made which files and which image.
# Usage: scripts/release/provenance.sh SOURCE CHECKSUMS IMAGE DIGEST
# Environment: REPOSITORY as scripts/release.sh; on GitHub also GITHUB_SERVER_URL, GITHUB_REPOSITORY,
#              GITHUB_WORKFLOW_REF, GITHUB_RUN_ID and GITHUB_RUN_ATTEMPT
set -eu
cd "$(dirname -- "$0")/../.."
source=$1
checksums=$2
image=$3
digest=$4

if [ -n "${GITHUB_WORKFLOW_REF:-}" ]; then
  builder=$GITHUB_SERVER_URL/$GITHUB_WORKFLOW_REF
  run=$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/$GITHUB_RUN_ID/attempts/$GITHUB_RUN_ATTEMPT
else
  builder=https://gpu-rollout.dev/release/local
  run=
fi
lock=$(sha256sum <"$source/Cargo.lock")
jq --null-input --sort-keys --rawfile checksums "$checksums" --arg image "$image" --arg digest "$digest" \
  --arg repository "${REPOSITORY:-}" --arg commit "$(git rev-parse HEAD)" --arg profile "$PROFILE" \
  --arg lock "${lock%% *}" --arg rustc "$(rustc --version)" \
  --arg builder "$builder" --arg run "$run" '
  {
    _type: "https://in-toto.io/Statement/v1",
    subject: (
      [$checksums | split("\n")[] | select(. != "") | split("  ") | {name: .[1], digest: {sha256: .[0]}}]
      + [{name: $image, digest: {sha256: ($digest | ltrimstr("sha256:"))}}]
    ),
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        buildType: "https://gpu-rollout.dev/release/v1",
        externalParameters: {repository: $repository, commit: $commit, image: $image, profile: $profile},
        resolvedDependencies: [
          {uri: "git+\($repository)@\($commit)", digest: {gitCommit: $commit}},
          {name: "Cargo.lock", digest: {sha256: $lock}},
          {name: "rustc", annotations: {version: $rustc}}
        ]
      },
      runDetails: ({builder: {id: $builder}} + (if $run == "" then {} else {metadata: {invocationId: $run}} end))
    }
  }'
