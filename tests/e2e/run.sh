#!/bin/sh
# Runs the end-to-end tests: `make e2e`, or directly `tests/e2e/run.sh [--full | --stack | FILTER…]`.
#   without a filter           what is run on every change
#   --full                     every scenario (`make e2e-full`)
#   --stack                    no test: a cluster to try things on, until Ctrl-C (`make stack`)
#   GPU_ROLLOUT_ROOTFS=DIR     root file system of the hook's image (default: target/image/rootfs, made by `make image`; without it
#                              a static binary is built into target/e2e/rootfs)
#   GPU_ROLLOUT_PREVIOUS=DIR   a checkout of the release before with its image built, for the scenarios in which both meet
#   GPU_ROLLOUT_E2E_THREADS=N  scenarios at once (default: two for each processor, as they wait for most of the time, and not more than 8)
#   GPU_ROLLOUT_E2E_KEEP=1     keep the directories of successful scenarios as well
set -eu
cd "$(dirname -- "$0")/../.."

# With a filter, a scenario itself checks what only some scenarios need.
case ${1:---full} in
--full) scripts/needs.sh stack scenarios e2e ;;
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

# The program at a workstation. (The hook's pods run the image.)
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
if [ $# -gt 0 ] && [ "$1" != --full ]; then
  cargo test -p e2e -- --ignored --test-threads="$threads" --nocapture "$@"
  exit
fi

# What only measures is run by name (scripts/bench.sh), and so is what is for people (scripts/stack.sh). The rights are what the scenarios have noted together; some of them alone prove nothing.
set -- "$@" scenarios::cost:: scenarios::pace:: scenarios::calibration:: scenarios::recordings:: stays_until_it_is_told_to_end every_granted_right
# Needs the image of the release before.
[ -n "${GPU_ROLLOUT_PREVIOUS:-}" ] || set -- "$@" of_previous_release
if [ "$1" = --full ]; then
  shift
else
  # Of the deployers every change is held against `scenarios::deployers::short`. The others take long, or have a shorter one like them.
  for table in by_tags leaving moving mutations network order outcomes triggers versions; do
    set -- "$@" "scenarios::deployers::$table::"
  done
  set -- "$@" scenarios::bundle:: scenarios::recipes::long:: scenarios::no_dra:: scenarios::never_ready:: its_node_is_lost fifty_nodes_are_drained five_hundred_worlds
fi
skipped=
for name in "$@"; do
  skipped="$skipped --skip $name"
done
# shellcheck disable=SC2086 # a list of options
cargo test -p e2e -- --ignored --test-threads="$threads" --nocapture $skipped
cargo test --quiet -p e2e -- --ignored --exact scenarios::rights::every_granted_right_is_used
