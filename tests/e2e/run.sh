#!/bin/sh
# Runs the end-to-end tests for `make e2e`.
# Usage: tests/e2e/run.sh [--full | --rest | --stack | FILTER…]
#   without a filter           run the scenarios that check every change
#   --full                     run every scenario (`make e2e-full`)
#   --rest                     run the scenarios of --full that a run without a filter leaves out
#                              (`make e2e-rest`)
#   --stack                    run no test, but a local cluster until Ctrl-C (`make stack`)
#   GPU_ROLLOUT_ROOTFS=DIR     root file system of the hook's image (default: target/image/rootfs of
#                              `make image`; if it is missing, a static binary is built into
#                              target/e2e/rootfs)
#   GPU_ROLLOUT_PREVIOUS=DIR   a checkout of the previous release with its image built, for the
#                              scenarios that run both releases
#   GPU_ROLLOUT_RELEASED=HOST:PORT
#                              the registry on loopback for which the release in target/dist was
#                              built, for the scenario that installs it from there
#   GPU_ROLLOUT_E2E_THREADS=N  number of scenarios at the same time (default: two for each
#                              processor, because they mostly wait, and at most 8)
#   GPU_ROLLOUT_E2E_KEEP=1     also keep the directories of successful scenarios
set -eu
cd "$(dirname -- "$0")/../.."

# With a filter, each scenario checks for the programs that only some scenarios need.
case ${1:---full} in
--full | --rest) scripts/needs.sh stack scenarios e2e ;;
--stack) scripts/needs.sh stack ;;
*) scripts/needs.sh stack scenarios ;;
esac
if [ "${1:-}" = --stack ]; then tests/tools/build.sh stack >/dev/null; else tests/tools/build.sh >/dev/null; fi

rootfs=${GPU_ROLLOUT_ROOTFS:-target/image/rootfs}
if [ ! -x "$rootfs/gpu-rollout" ]; then
  [ -z "${GPU_ROLLOUT_ROOTFS:-}" ] || { echo "tests/e2e/run.sh: no gpu-rollout in $rootfs" >&2; exit 1; }
  target=$(uname -m)-unknown-linux-gnu
  RUSTFLAGS='-C target-feature=+crt-static' cargo build --profile quick --target "$target" --target-dir target/static --bin gpu-rollout --no-default-features
  rootfs=target/e2e/rootfs
  mkdir -p "$rootfs"
  cp "target/static/$target/quick/gpu-rollout" "$rootfs/gpu-rollout"
fi
GPU_ROLLOUT_ROOTFS=$(CDPATH='' cd -- "$rootfs" && pwd)
export GPU_ROLLOUT_ROOTFS

# The full program, as on a workstation. The hook's pods run the image.
cargo build --bin gpu-rollout
GPU_ROLLOUT_PROGRAM=$(realpath "${CARGO_TARGET_DIR:-target}/debug/gpu-rollout")
export GPU_ROLLOUT_PROGRAM

RUST_LIB_BACKTRACE=0
export RUST_LIB_BACKTRACE
rm -rf target/tmp/rights
threads=$((2 * $(getconf _NPROCESSORS_ONLN)))
[ "$threads" -le 8 ] || threads=8
threads=${GPU_ROLLOUT_E2E_THREADS:-$threads}
[ "${1:-}" != --stack ] || set -- --exact scenarios::local::stays_until_it_is_told_to_end
# Measurements (scripts/bench.sh, scripts/soak.sh) and the local cluster (scripts/stack.sh) run only
# by name. The check of the rights runs at the end, because it needs the notes of all scenarios.
by_name="scenarios::cost:: scenarios::pace:: scenarios::scale:: scenarios::calibration:: scenarios::recordings:: stays_until_it_is_told_to_end every_granted_right"
# Of the deployer scenarios, only `scenarios::deployers::short` runs for every change. The others
# take long, or a shorter scenario covers the same.
long="scenarios::bundle:: scenarios::linters:: scenarios::recipes::long:: scenarios::no_dra:: scenarios::never_ready:: scenarios::truth:: scenarios::acceptance::by_hand:: scenarios::acceptance::killed:: previous_driver_redoes_only_touched_node its_node_is_lost fifty_nodes_are_drained five_hundred_worlds"
for table in by_tags kustomization leaving moving mutations network order outcomes proof triggers versions; do
  long="$long scenarios::deployers::$table::"
done
# These need the image of the previous release.
long="$long of_previous_release"
[ -n "${GPU_ROLLOUT_PREVIOUS:-}" ] || by_name="$by_name of_previous_release"
# These deploy a whole bundle, or need a release.
long="$long scenarios::released::flux:: scenarios::released::build::"
[ -n "${GPU_ROLLOUT_RELEASED:-}" ] || by_name="$by_name scenarios::released::build::"

# skip NAME…: the options of a test program that leave these tests out
skip() {
  for name in "$@"; do
    echo "--skip $name"
  done
}

# run ARGUMENT…: runs tests with these filters and options of the test program
run() {
  cargo test -p e2e -- --include-ignored --test-threads="$threads" --nocapture "$@"
}

# The names and options are lists of words.
# shellcheck disable=SC2046,SC2086
case ${1:-} in
--full) run $(skip $by_name) ;;
--rest) run $long $(skip $by_name) ;;
'') run $(skip $by_name $long) ;;
*)
  run "$@"
  exit
  ;;
esac
# The scenarios of `make e2e` use every right.
[ "${1:-}" = --rest ] || cargo test --quiet -p e2e -- --ignored --exact scenarios::rights::every_granted_right_is_used
