#!/bin/sh
# Runs the end-to-end tests: `make e2e`, or directly `tests/e2e/run.sh [--full | FILTER…]`.
#   without a filter           what is run on every change
#   --full                     every scenario (`make e2e-full`)
#   GPU_ROLLOUT_ROOTFS=DIR     root file system of the hook's image (default: target/image/rootfs, made by `make image`; without it
#                              a static binary is built into target/e2e/rootfs)
#   GPU_ROLLOUT_PREVIOUS=DIR   a checkout of the release before with its image built, for the scenarios in which both meet
#   GPU_ROLLOUT_E2E_THREADS=N  scenarios at once (default: two for each processor, as they wait for most of the time, and not more than 8)
#   GPU_ROLLOUT_E2E_KEEP=1     keep the directories of successful scenarios as well
set -eu
cd "$(dirname -- "$0")/../.."

# What the node agent needs from the system; the pinned programs come from tests/tools/build.sh.
missing=
for program in bwrap setpriv kill; do
  command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
if [ -n "$missing" ]; then
  echo "tests/e2e/run.sh: missing:$missing" >&2
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "hint: install bubblewrap, util-linux and procps with your package manager (Debian: apt-get install bubblewrap util-linux procps)" >&2
    exit 1
  fi
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends bubblewrap util-linux procps >&2
fi
bwrap --unshare-user --unshare-pid --ro-bind / / true || {
  echo "tests/e2e/run.sh: bubblewrap cannot make a user namespace here" >&2
  echo "hint: allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)" >&2
  exit 1
}

# Argo CD keeps its cache in Redis, which is no Go program. Nothing may start the package's service.
if ! command -v redis-server >/dev/null 2>&1; then
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "tests/e2e/run.sh: missing: redis-server" >&2
    echo "hint: install it with your package manager (Debian: apt-get install redis-server); it needs no running service" >&2
    exit 1
  fi
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
  fi
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server >&2
  # Nor at the next boot; where no systemd is, there is nothing to disable.
  systemctl --quiet disable redis-server.service 2>/dev/null || true
fi

tests/tools/build.sh >/dev/null

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
