#!/bin/sh
# `make demo`: builds the program, renders a recipe of the library into a bundle, verifies the
# bundle and prints the next steps. Needs only a Rust toolchain. The build is unoptimized: this
# compiles fastest, and `make test` can use it.
set -eu
cd "$(dirname -- "$0")/.."
recipe=${1:-eks-gb200-training}
bundle=target/demo/$recipe

scripts/needs.sh cargo
rm -rf "$bundle"

# gpu_rollout ARGUMENT…: prints the command as a user types it, and runs the program built here
gpu_rollout() {
  printf '\n$ gpu-rollout %s\n' "$*"
  cargo run --quiet --locked -- "$@"
}

echo "Building gpu-rollout (takes a few minutes the first time)"
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
    put gpu-rollout into PATH, as the pages expect (permanently: cargo install --path .)
  less $bundle/README.md
    read what the bundle contains and how to deploy it
  $bundle/deploy.sh --dry-run
    print the Helm commands in order (needs helm); without --dry-run, run them in your current cluster
  edit a file in $bundle, then: gpu-rollout bundle verify $bundle
    report the changed files, and whether the parts of the bundle still fit together
  gpu-rollout recipe check my-recipe.yaml
    check a recipe of your own (docs/how-to/deploy-recipe.md shows one)
NEXT
