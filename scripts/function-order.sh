#!/bin/sh
# Writes scripts/function-order.ld: the functions that renders execute. The linker places them next to each
# other, so that a render maps a few MiB of the program instead of most of it (scripts/rustflags.sh). The file
# is advice: a function that is missing there, or no longer exists, costs some memory. Write it again after a
# new version of the compiler, or if `make bench` shows that the peak memory of a render has grown.
# Usage: scripts/function-order.sh   (needs valgrind; six minutes)
set -eu
cd "$(dirname -- "$0")/.."
scripts/needs.sh order
target=$(scripts/program-target.sh)
case $target in
*-linux-musl) ;;
*)
  echo "scripts/function-order.sh: published programs for Linux are linked with musl, which is missing here" >&2
  echo "hint: rustup target add $(uname -m)-unknown-linux-musl, and install musl-gcc" >&2
  exit 1
  ;;
esac
program=$(CARGO_PROFILE_RELEASE_STRIP=none scripts/static.sh release "$target")

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
aicr=crates/recipe/tests/data/aicr-v0.11.1
# record ARGUMENT…: the functions of one render
record() {
  rm -rf "$scratch/bundle"
  valgrind --quiet --tool=callgrind --demangle=no --compress-strings=no --callgrind-out-file="$scratch/calls" \
    "$program" bundle render --output "$scratch/bundle" --repo https://git.example.com/fleet.git "$@" \
    >"$scratch/messages" 2>&1 || {
    cat "$scratch/messages" >&2
    exit 1
  }
  sed -n 's/^fn=//p' "$scratch/calls" >>"$scratch/functions"
}
for deployer in helm helmfile flux argocd argocd-helm; do
  record --deployer "$deployer" --recipe base
  record --deployer "$deployer" --recipe "$aicr/recipe-results/h100-eks-ubuntu-training-kubeflow.yaml" \
    --data "$aicr" --set cluster.gpuNodes=8
done

{
  echo "/* Functions that renders execute, written by scripts/function-order.sh. The parts of their names that change"
  echo "   with each version of a crate or of the compiler are wildcards. */"
  echo "SECTIONS"
  echo "{"
  echo "  .text.render :"
  echo "  {"
  # In this order: disambiguators of crates, back references, disambiguators of impl blocks, counters of LLVM
  sed -E -n -e 's/Cs[0-9A-Za-z]+_/Cs*_/g' -e 's/B[0-9A-Za-z]{0,3}_/B*_/g' -e 's/([MX])s[0-9A-Za-z]*_/\1*_/g' \
    -e 's/\.[0-9]+$/*/' -e 's/^[A-Za-z_][A-Za-z0-9_.$*]*$/    *(.text.&)/p' "$scratch/functions" |
    LC_ALL=C sort -u
  echo "  }"
  echo "}"
  echo "INSERT BEFORE .text;"
} >"$scratch/order"
grep -q '(\.text\._R' "$scratch/order" || {
  echo "scripts/function-order.sh: found no function of Rust" >&2
  exit 1
}
cp "$scratch/order" scripts/function-order.ld
echo "scripts/function-order.ld: $(grep -c '(.text' scripts/function-order.ld) functions"
