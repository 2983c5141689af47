#!/bin/sh
# Fuzzes everything that reads text from outside, guided by coverage (libFuzzer). Needs a C++
# compiler. New inputs stay in target/fuzz/corpus, so that the next run continues there.
# Usage: scripts/fuzz.sh [RUNS [TARGET…]]   RUNS: inputs per target (default: 1000000)
set -eu
cd "$(dirname -- "$0")/.."
runs=${1:-1000000}
[ $# -eq 0 ] || shift
# shellcheck disable=SC2046 # names have no spaces
[ $# -gt 0 ] || set -- $(sed -n 's/^    ("\([a-z-]*\)", .*/\1/p' tests/fuzz/src/main.rs)

scripts/needs.sh fuzz
# The instrumentation that libFuzzer reads. With an explicit target, build scripts and macros have
# none.
RUSTFLAGS='-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares' \
  cargo build --locked --release --manifest-path tests/fuzz/Cargo.toml --target-dir target/fuzz/build --target "$(rustc -vV | sed -n 's/^host: //p')"
fuzz=$(find "$PWD/target/fuzz/build" -path '*/release/fuzz' -type f)

# The first inputs are the project's own texts: prints their files, or writes them into the corpus.
# Files of a bundle or chart are in the form of `files` in tests/fuzz/src/bundles.rs.
seed() {
  case $1 in
  yaml | recipe) find bundles/recipes -name '*.yaml' ;;
  device-plugin) find crates/device-plugin-config/tests bundles -name '*.yaml' -size -8k ;;
  redaction) find docs -name '*.md' ;;
  signature) find tests/data/signed -name '*.json' -o -name '*.p*' ;;
  manifest) find charts/gpu-rollout/templates -type f ;;
  addresses)
    printf 'oci://registry.example.com:5000/team/gpu\nsha256:%064d' 0 >"$corpus/digest"
    printf 'oci://registry.example.com/gpu\nv1\nclusters/a' >"$corpus/registry"
    printf 'ssh://git@git.example.com/fleet.git\nmain\n./clusters/a/' >"$corpus/git"
    ;;
  package)
    printf '%s\n\0' 'gpu/checksums.txt' 'gpu/deploy.sh
#!/bin/sh' 'gpu/bundle-info.yaml
deployer: helm
recipe: {name: base, sha256: ""}' >"$corpus/bundle"
    ;;
  chart-package)
    printf '%s\n\0' 'queue/values.yaml' 'queue/Chart.yaml
name: queue
version: v1.2.0' >"$corpus/chart"
    ;;
  esac
}
failed=
for target in "$@"; do
  corpus=target/fuzz/corpus/$target
  mkdir -p "$corpus"
  seed "$target" | while read -r file; do cp "$file" "$corpus/$(echo "$file" | tr / _)"; done
  echo "fuzz: $target: $runs inputs"
  FUZZ_TARGET=$target "$fuzz" -runs="$runs" -max_len=4096 -timeout=10 -artifact_prefix="target/fuzz/$target-" \
    -print_final_stats=1 "$corpus" >"target/fuzz/$target.log" 2>&1 || failed="$failed $target"
  grep -E 'stat::(number_of_executed_units|average_exec_per_sec)|panicked|ERROR' "target/fuzz/$target.log" | sed "s/^/  /"
done
[ -z "$failed" ] || {
  echo "fuzz: failed:$failed; the inputs are in target/fuzz, the messages in target/fuzz/TARGET.log" >&2
  exit 1
}
