#!/bin/sh
# `make demo`: builds the program (unoptimized: that compiles fastest, and `make test` goes on with it), renders a recipe of the
# library into a bundle, verifies it, and says what to do next. Needs a Rust toolchain and nothing else.
set -eu
cd "$(dirname -- "$0")/.."
recipe=${1:-eks-gb200-training}
bundle=target/demo/$recipe

scripts/needs.sh cargo
rm -rf "$bundle"

# Shown as typed; run as built here.
gpu_rollout() {
  printf '\n$ gpu-rollout %s\n' "$*"
  cargo run --quiet --locked -- "$@"
}

echo "Building gpu-rollout: a few minutes the first time."
cargo build --locked
gpu_rollout recipe list
gpu_rollout recipe explain "$recipe" components.gpu-operator.version
gpu_rollout bundle render --recipe "$recipe" --deployer helm --output "$bundle" 2>&1
gpu_rollout bundle verify "$bundle" 2>&1

printf '\nThe bundle, %s files:\n\n%s/\n' "$(find "$bundle" -type f | wc -l | tr -d ' ')" "$bundle"
(cd "$bundle" && find . -mindepth 1 | LC_ALL=C sort | sed -e 's|^\./||' -e 's|[^/]*/|  |g' -e 's|^|  |')

cat <<NEXT

Next:
  export PATH="${CARGO_TARGET_DIR:-$PWD/target}/debug:\$PATH"
    so that gpu-rollout is found, as the pages write it (to keep it: cargo install --path .)
  less $bundle/README.md
    what is in it, and how it is deployed
  $bundle/deploy.sh --dry-run
    the Helm commands in order (needs helm); without --dry-run they run against your current cluster
  edit a file in $bundle, then: gpu-rollout bundle verify $bundle
    it names what was changed, and whether a promise was broken
  gpu-rollout recipe check my-recipe.yaml
    your own recipe: docs/how-to/deploy-recipe.md shows one
NEXT
