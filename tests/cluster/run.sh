#!/bin/sh
# Runs the end-to-end tests: `make e2e`, or directly `tests/cluster/run.sh [FILTER…]`.
#   GPU_ROLLOUT_ROOTFS=DIR     root file system of the hook's image (default: target/image/rootfs, made by `make image`; without it
#                              a static binary is built into target/e2e/rootfs)
#   GPU_ROLLOUT_E2E_THREADS=N  scenarios at once (default 2)
#   GPU_ROLLOUT_E2E_KEEP=1     keep the directories of successful scenarios as well
set -eu
cd "$(dirname -- "$0")/../.."

# What the node agent needs from the system; the pinned programs come from tests/tools/build.sh.
missing=
for program in bwrap setpriv kill; do
  command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
if [ -n "$missing" ]; then
  echo "tests/cluster/run.sh: missing:$missing" >&2
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "hint: install bubblewrap, util-linux and procps with your package manager (Debian: apt-get install bubblewrap util-linux procps)" >&2
    exit 1
  fi
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends bubblewrap util-linux procps >&2
fi
bwrap --unshare-user --unshare-pid --ro-bind / / true || {
  echo "tests/cluster/run.sh: bubblewrap cannot make a user namespace here" >&2
  echo "hint: allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)" >&2
  exit 1
}

tests/tools/build.sh >/dev/null

rootfs=${GPU_ROLLOUT_ROOTFS:-target/image/rootfs}
if [ ! -x "$rootfs/gpu-rollout" ]; then
  [ -z "${GPU_ROLLOUT_ROOTFS:-}" ] || { echo "tests/cluster/run.sh: no gpu-rollout in $rootfs" >&2; exit 1; }
  target=$(uname -m)-unknown-linux-gnu
  RUSTFLAGS='-C target-feature=+crt-static' cargo build --profile quick --target "$target" --target-dir target/static --bin gpu-rollout
  rootfs=target/e2e/rootfs
  mkdir -p "$rootfs"
  cp "target/static/$target/quick/gpu-rollout" "$rootfs/gpu-rollout"
fi
GPU_ROLLOUT_ROOTFS=$(CDPATH='' cd -- "$rootfs" && pwd)
export GPU_ROLLOUT_ROOTFS

RUST_LIB_BACKTRACE=0
export RUST_LIB_BACKTRACE
rm -rf target/tmp/rights
# What only measures is run by name (scripts/bench.sh), and so are the deployers, whose programs take minutes to build. The rights are what the
# scenarios have noted together, some of them alone prove nothing.
if [ $# -gt 0 ]; then
  cargo test --test cluster -- --ignored --test-threads="${GPU_ROLLOUT_E2E_THREADS:-2}" --nocapture "$@"
else
  cargo test --test cluster -- --ignored --test-threads="${GPU_ROLLOUT_E2E_THREADS:-2}" --nocapture --skip scenarios::cost:: --skip scenarios::pace:: --skip scenarios::deployers:: \
    --skip every_granted_right
  cargo test --quiet --test cluster -- --ignored --exact scenarios::rights::every_granted_right_is_used
fi
