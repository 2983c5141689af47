#!/bin/sh
# `make lint`: runs all checks that need no tests, then fails if any check failed. If a tool is
# missing, its check is skipped with a message. With CI=true, a missing tool is an error, except
# where noted.
set -eu
cd "$(dirname -- "$0")/.."
failed=
skipped=

# check NAME COMMAND…
check() {
  name=$1
  shift
  if "$@"; then
    echo "lint: $name: ok"
  else
    echo "lint: $name: FAILED" >&2
    failed="$failed $name"
  fi
}

# skip NAME REASON: the tool of the check is missing
skip() {
  if [ "${CI:-}" = true ]; then
    echo "lint: $1: FAILED: $2" >&2
    failed="$failed $1"
  else
    echo "lint: $1: skipped: $2"
    skipped="$skipped $1"
  fi
}

# This documentation is for readers of the source, so links to private items are allowed.
docs() {
  RUSTDOCFLAGS='-D warnings --allow rustdoc::private_intra_doc_links' cargo doc --quiet --locked --workspace --no-deps --document-private-items
}

bundle=target/lint/bundle
render_bundle() {
  cargo run --quiet --locked -- bundle render --recipe eks-gb200-training --deployer helm --output "$bundle" --force 2>/dev/null
}

shell_scripts() {
  # shellcheck disable=SC2046 # no path in this repository has a space
  shellcheck $(git ls-files '*.sh' .ci/run) "$bundle"/*.sh
}

# Uses the Helm of GPU_ROLLOUT_HELM, or the pinned one if it is built.
helm_lint() {
  status=0
  for chart in charts/gpu-rollout/Chart.yaml "$bundle"/*/Chart.yaml "$bundle"/charts/*/Chart.yaml; do
    [ -e "$chart" ] || continue
    "$helm" lint --strict --quiet "$(dirname -- "$chart")" || status=1
  done
  return $status
}

# nothing_found PATTERN WHY PATHSPEC…: fails if a tracked line matches
nothing_found() {
  pattern=$1
  why=$2
  shift 2
  if git grep --line-number --extended-regexp -e "$pattern" -- "$@"; then
    echo "lint: the lines above: $why" >&2
    return 1
  fi
}

# Not checked: third-party files, which are data; lock files, which name the sources of packages;
# and this file, which contains the patterns.
ours=":(exclude)bundles/components :(exclude)tests/data :(exclude)crates/*/tests/data/* :(exclude)*.lock :(exclude)*go.sum :(exclude)LICENSE :(exclude)scripts/lint.sh"

unfinished() {
  # shellcheck disable=SC2086 # a list of path patterns
  nothing_found '\b(TODO|FIXME|XXX|HACK)\b|(todo|unimplemented)!' 'implement it, or reject it with a clear error' . $ours
}

# On GKE nodes, the driver is in /home/kubernetes. The pattern allows this path by its next letters.
machine_paths() {
  # shellcheck disable=SC2086 # a list of path patterns
  nothing_found '(^|[^[:alnum:]._/-])/((root|Users|work|tmp/wt-)[[:alnum:]]*/|home/([^k]|k[^u]))' 'a path that exists on only one machine' . $ours
}

registry_hosts() {
  # shellcheck disable=SC2086 # a list of path patterns
  nothing_found '(crates|proxy\.golang|registry\.npmjs|pypi|deb\.debian)\.(io|org)' \
    'do not name registries: packages come from the registry that the package manager is configured for' . $ours
}

# A file above the limit contains more than one concept.
large_files() {
  large=$(git ls-files 'crates/*.rs' 'src/*.rs' 'tests/*.rs' '*.sh' '*.j2' '*.tpl' | xargs wc -l | awk '$2 != "total" && $1 > 500')
  [ -z "$large" ] || {
    echo "$large"
    echo "lint: the files above have more than 500 lines: split them by concept" >&2
    return 1
  }
}

ignored_files() {
  tracked=$(git ls-files --cached --ignored --exclude-standard)
  [ -z "$tracked" ] || {
    echo "$tracked"
    echo "lint: the files above are both tracked and ignored by git: remove them" >&2
    return 1
  }
}

# The language of the project (CONTRIBUTING.md, "Prose"). Only the pinned programs: others find other words.
prose() {
  if [ "${CI:-}" = true ]; then
    tests/tools/build.sh vale >/dev/null
    tests/tools/typos.sh >/dev/null
  fi
  if [ ! -x "${GPU_ROLLOUT_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/gpu-rollout/tools}/bin/vale" ]; then
    skip prose "vale is not built (tests/tools/build.sh vale)"
  elif [ -z "$(tests/tools/typos.sh --if-built)" ]; then
    skip prose "typos is not built (tests/tools/typos.sh)"
  else
    check prose-self-check scripts/prose.sh self-check
    check prose scripts/prose.sh words
    check spelling scripts/prose.sh spelling
  fi
  check width scripts/prose.sh width
}

check format cargo fmt --check
# The fuzzer is a workspace of its own. `make soak` refuses an outdated lock file.
fuzzer() {
  cargo fmt --check --manifest-path tests/fuzz/Cargo.toml &&
    cargo metadata --quiet --locked --format-version 1 --manifest-path tests/fuzz/Cargo.toml >/dev/null
}
check fuzzer fuzzer
check clippy cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
check image cargo clippy --quiet --locked --no-default-features -- -D warnings
check rustdoc docs
check bundle render_bundle
if command -v shellcheck >/dev/null; then check shell shell_scripts; else skip shell "shellcheck is not installed"; fi
actionlint=${GPU_ROLLOUT_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/gpu-rollout/tools}/bin/actionlint
[ "${CI:-}" != true ] || actionlint=$(tests/tools/build.sh actionlint)/actionlint
if [ -x "$actionlint" ]; then check workflows "$actionlint" .github/workflows/*.yml; else skip workflows "actionlint is not built (tests/tools/build.sh actionlint)"; fi
helm=${GPU_ROLLOUT_HELM:-}
[ -n "$helm" ] || [ "${CI:-}" != true ] || helm=$(tests/tools/build.sh helm4)/helm4
[ -n "$helm" ] || helm=${GPU_ROLLOUT_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/gpu-rollout/tools}/bin/helm4
if [ -x "$helm" ]; then check charts helm_lint; else skip charts "helm is not built (tests/tools/build.sh helm4)"; fi
# Uses the installed cargo-deny, or the pinned one if it is built.
deny=$(tests/tools/cargo-deny.sh --if-built)
[ -n "$deny" ] || [ "${CI:-}" != true ] || deny=$(tests/tools/cargo-deny.sh)
if [ -n "$deny" ]; then
  check dependencies "$deny" --locked --workspace check --deny warnings bans licenses sources
  if "$deny" --locked fetch db >/dev/null 2>&1; then
    check advisories "$deny" --locked --workspace check advisories
  else
    echo "lint: advisories: skipped: cannot reach the advisory database"
  fi
else
  skip dependencies "cargo-deny is not built (tests/tools/cargo-deny.sh)"
fi
mdbook=$(tests/tools/mdbook.sh --if-built)
if [ -n "$mdbook" ] || [ "${CI:-}" = true ]; then check site scripts/site.sh; else skip site "mdBook is not built (tests/tools/mdbook.sh)"; fi
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  prose
  check unfinished unfinished
  check paths machine_paths
  check hosts registry_hosts
  check ignored ignored_files
  check size large_files
else
  skip words "not a git checkout"
fi

[ -z "$skipped" ] || echo "lint: skipped:$skipped"
[ -z "$failed" ] || {
  echo "lint: failed:$failed" >&2
  exit 1
}
echo "lint: all clean"
