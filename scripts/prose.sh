#!/bin/sh
# Checks the prose of the project: its words with vale (.vale.ini), its spelling with typos (typos.toml), its width with wrapped.awk.
# Usage: scripts/prose.sh words [--all] [FILE…]   forbidden words; --all adds warnings and suggestions, such as long sentences
#        scripts/prose.sh spelling | width        misspelled words; lines of pages with more than 100 columns
#        scripts/prose.sh self-check              whether the three find the mistakes in tests/lint
# Without FILE, `words` reads every page, comment, message, help text, template of a page and text of the chart.
set -euf
cd "$(dirname -- "$0")/.."
vale=${GPU_ROLLOUT_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/gpu-rollout/tools}/bin/vale
copies=target/lint/prose

# Data of others, and the mistakes for the self-check
data=':(exclude)tests/data :(exclude)crates/*/tests/data/* :(exclude)tests/lint'

# copy FILE EXTENSION SED-OPTION…: a copy that vale can read, with the same lines
copy() {
  file=$1
  extension=$2
  shift 2
  mkdir -p "$copies/$(dirname -- "$file")"
  sed "$@" "$file" >"$copies/$file$extension"
}

all_prose() {
  # shellcheck disable=SC2086 # a list of path patterns
  git ls-files '*.md' '*.rs' '*.md.j2' $data
  rm -rf "$copies"
  # shellcheck disable=SC2016 # backticks of Markdown
  # The code blocks of this page are the help texts of all commands.
  copy docs/cli.md .txt -e '/^```text$/,/^```$/!s/.*//' -e '/^```/s/.*//'
  copy charts/gpu-rollout/templates/NOTES.txt .txt -e 's/{{[^}]*}}//g'
  # The comments, without the names at the start of a row of a list
  copy charts/gpu-rollout/values.yaml .md -e '/^ *#/!s/.*//' -e 's/^ *#  *[a-z-]*   *//' -e 's/^ *# \{0,1\}//'
  find "$copies" -type f
}

# words LEVEL [FILE…]: fails if there are errors
words() {
  level=$1
  shift
  # shellcheck disable=SC2046 # paths without spaces
  [ $# -gt 0 ] || set -- $(all_prose)
  status=0
  found=$("$vale" --no-global --output=line --minAlertLevel="$level" "$@") || status=$?
  [ -z "$found" ] || echo "$found" | sed "s|^$copies/\(.*\)\.[a-z]*:\([0-9]*:[0-9]*:\)|\1:\2|"
  return $status
}

spelling() {
  typos=$(tests/tools/typos.sh --if-built)
  [ -n "$typos" ] || { echo "hint: build it with tests/tools/typos.sh" >&2; exit 1; }
  "$typos" --format brief "$@"
}

width() {
  # shellcheck disable=SC2046,SC2086 # paths without spaces, and a list of path patterns
  [ $# -gt 0 ] || set -- $(git ls-files '*.md' $data)
  LC_ALL=C awk -f scripts/wrapped.awk "$@"
}

# findings FILE: line and check of each finding
findings() {
  { words error "$1" || true; } | sed -n 's/^[^:]*:\([0-9]*\):[0-9]*:GpuRollout\.\([A-Za-z]*\):.*/\1 \2/p'
}

self_check() {
  expected=$(mktemp)
  actual=$(mktemp)
  trap 'rm -f "$expected" "$actual"' EXIT
  {
    echo "1 Headings"
    sed -n '=;s/.*<!-- \([A-Za-z]*\) -->$/\1/p' tests/lint/prose.md | awk '/^[0-9]/ { line = $1; next } { print line, $1 }'
    printf '%s\n' "1 Actors" "3 Negation" "3 Settled" "5 Settled" "8 Actors"
  } >"$expected"
  {
    findings tests/lint/prose.md
    { spelling --isolated tests/lint/prose.md || true; } | sed 's/^[^:]*:\([0-9]*\):.*/\1 spelling/'
    { width tests/lint/prose.md || true; } | sed 's/^[^:]*:\([0-9]*\):.*/\1 width/'
    findings tests/lint/prose.rs
  } >"$actual"
  sort -o "$expected" "$expected"
  sort -o "$actual" "$actual"
  diff "$expected" "$actual"
}

mkdir -p target/lint
check=${1:-}
[ $# -eq 0 ] || shift
case $check in
words)
  level=error
  if [ "${1:-}" = --all ]; then
    level=suggestion
    shift
  fi
  words "$level" "$@"
  ;;
spelling) spelling ;;
width) width ;;
self-check) self_check ;;
*)
  sed -n '/^# Usage/,/^set/s/^# //p' "$0" >&2
  exit 2
  ;;
esac
