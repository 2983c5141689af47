#!/bin/sh
# Writes a page from standard input as a comment on a pull request of GitHub. The comment of an earlier run is
# updated, so that there is one comment. If the token may not comment, as in pull requests from forks, the page
# is only in the summary of the job.
# Usage: preview.sh | github.sh NUMBER [NAME]   (NUMBER: of the pull request; NAME: of the comment, if there are
#        several, default `preview`)
# Environment: GH_TOKEN (needs pull-requests: write), GITHUB_REPOSITORY; GITHUB_STEP_SUMMARY=FILE
#              COMMENT_AUTHOR   the user of the token (default: github-actions[bot])
set -eu
number=$1
name=${2:-preview}
author=${COMMENT_AUTHOR:-github-actions[bot]}
# GitHub does not show it.
mark="<!-- gpu-rollout $name -->"
comments=repos/$GITHUB_REPOSITORY/issues

[ -n "$number" ] || {
  echo "github.sh: expected the number of a pull request, found nothing" >&2
  echo "hint: run the workflow \`on: pull_request\`; other events have no number" >&2
  exit 2
}
case $number$name in
*[!A-Za-z0-9_-]*)
  echo "github.sh: expected a number and a name of letters and digits, found $number and $name" >&2
  exit 2
  ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
  echo "$mark"
  cat
} >"$work/page"
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$work/page" >>"$GITHUB_STEP_SUMMARY"
jq --raw-input --slurp '{body: .}' "$work/page" >"$work/comment"

# Another user's comment with the same mark stays as it is.
gh api --paginate "$comments/$number/comments?per_page=100" >"$work/comments"
id=$(jq --raw-output --slurp --arg mark "$mark" --arg author "$author" \
  '[.[][] | select(.user.login == $author and (.body | startswith($mark)))][0].id // empty' "$work/comments")
if [ -n "$id" ]; then
  gh api --method PATCH "$comments/comments/$id" --input "$work/comment" >/dev/null
else
  gh api --method POST "$comments/$number/comments" --input "$work/comment" >/dev/null
fi || echo "::warning::gpu-rollout cannot comment on this pull request; the preview is in the summary of the job"
