#!/bin/sh
# Prints, as Markdown, what the bundles of a branch change: for each bundle the output of `bundle diff`, and with a
# kubeconfig also that of `plan`. The pages docs/how-to/preview-in-pull-requests.md and
# .github/actions/rollout-preview use it.
# Usage: preview.sh [BASE [DIRECTORY]]   (BASE: the commit to compare with, default HEAD^1, which is the target
#        branch in the merge commit of a pull request; DIRECTORY: where to look for bundles, default `.`)
# Environment: GPU_ROLLOUT=FILE   the program (default: gpu-rollout)
#              KUBECONFIG=FILE    the cluster that `plan` reads; without it, there is no plan
set -eu
base=${1:-HEAD^1}
directory=${2:-.}
gpu_rollout=${GPU_ROLLOUT:-gpu-rollout}
# GitHub accepts comments of 65,536 characters.
longest_part=15000
longest=55000

git rev-parse --quiet --verify "$base^{commit}" >/dev/null || {
  echo "preview.sh: there is no commit $base in this clone" >&2
  echo "hint: fetch it; with actions/checkout, set fetch-depth: 2" >&2
  exit 2
}
command -v "$gpu_rollout" >/dev/null || {
  echo "preview.sh: there is no program $gpu_rollout" >&2
  echo "hint: install gpu-rollout, or name it: GPU_ROLLOUT=FILE" >&2
  exit 2
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir "$work/old"

# bundles: the directories with a bundle, in the base and now
bundles() {
  {
    git -c core.quotePath=false ls-tree -r --name-only "$base" -- "$directory"
    find "$directory" -name .git -prune -o -type f -name bundle-info.yaml -print
  } | sed -n -e 's|^\./||' -e 's|^bundle-info\.yaml$|./&|' -e 's|/bundle-info\.yaml$||p' | LC_ALL=C sort -u
}

# code TEXT: a name as Markdown. Other characters than these could be Markdown too.
code() { printf '%s' "\`$(printf '%s' "$1" | tr -c 'A-Za-z0-9._/ -' '?')\`"; }

# block FILE: the content as a code block, at most longest_part characters of it
block() {
  fence=$(awk '{ while (match($0, /`+/)) { if (RLENGTH > longest) longest = RLENGTH; $0 = substr($0, RSTART + RLENGTH) } }
    END { for (i = 0; i <= (longest < 2 ? 2 : longest); i++) printf "`" }' "$1")
  printf '%stext\n' "$fence"
  if [ "$(wc -c <"$1")" -gt "$longest_part" ]; then
    # Without the last line, which may be incomplete
    head -c "$longest_part" "$1" | sed '$d'
    echo "… (the rest is omitted)"
  else
    cat "$1"
  fi
  printf '%s\n' "$fence"
}

# plan DIRECTORY: what the bundle would do to the cluster
plan() {
  status=0
  "$gpu_rollout" plan --bundle "$1" >"$work/plan" 2>&1 || status=$?
  case $status in
  0) summary='What it does to the cluster' ;;
  14) summary='**The rollout is blocked**' ;;
  *) summary="$(code plan) failed (exit code $status)" ;;
  esac
  printf '\n<details><summary>%s</summary>\n\n' "$summary"
  block "$work/plan"
  printf '\n</details>\n'
}

# part DIRECTORY: the section of a bundle; nothing if it has not changed
part() {
  title="### $(code "$1")"
  if [ ! -f "$1/bundle-info.yaml" ]; then
    printf '\n%s\n\nThe bundle is removed. It depends on the deployer whether its releases are uninstalled.\n' "$title"
    return
  fi
  if ! git cat-file -e "$base:./$1/bundle-info.yaml" 2>/dev/null; then
    printf '\n%s\n\nThe bundle is new. Its releases, in order:\n\n' "$title"
    sed -n '/^releases:/,$s/^ *- name: //p' "$1/bundle-info.yaml" >"$work/releases"
    block "$work/releases"
  else
    git archive --output "$work/old.tar" "$base" -- "$1"
    tar -xf "$work/old.tar" -C "$work/old"
    status=0
    "$gpu_rollout" bundle diff "$work/old/$1" "$1" >"$work/diff" 2>&1 || status=$?
    case $status in
    0) return ;;
    3) printf '\n%s\n\n' "$title" ;;
    *) printf '\n%s\n\n%s failed (exit code %s):\n\n' "$title" "$(code 'bundle diff')" "$status" ;;
    esac
    block "$work/diff"
  fi
  [ -z "${KUBECONFIG:-}" ] || plan "$1"
}

bundles >"$work/bundles"
unchanged=0
omitted=
: >"$work/page"
while IFS= read -r bundle; do
  part "$bundle" >"$work/part" </dev/null
  if [ ! -s "$work/part" ]; then
    unchanged=$((unchanged + 1))
  elif [ $(($(wc -c <"$work/page") + $(wc -c <"$work/part"))) -gt "$longest" ]; then
    omitted="$omitted $(code "$bundle")"
  else
    cat "$work/part" >>"$work/page"
  fi
done <"$work/bundles"

echo "## Rollout preview"
if [ ! -s "$work/bundles" ]; then
  printf '\nThere is no bundle in this repository.\n'
elif [ ! -s "$work/page" ] && [ -z "$omitted" ]; then
  printf '\nNo bundle changes what it deploys.\n'
else
  cat "$work/page"
  [ -z "$omitted" ] || printf '\nOmitted, because the page would be too long:%s.\n' "$omitted"
  [ "$unchanged" -eq 0 ] || printf '\nUnchanged bundles: %s.\n' "$unchanged"
fi
