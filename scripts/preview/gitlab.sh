#!/bin/sh
# Writes a page from standard input as a note on a merge request of GitLab. The note of an earlier run is updated,
# so that there is one note.
# Usage: preview.sh | gitlab.sh [NAME]   (NAME: of the note, if there are several, default `preview`)
# Environment: GITLAB_TOKEN (a project access token with the scope `api`, of a user who may comment), and what
#              GitLab sets: CI_API_V4_URL, CI_PROJECT_ID, CI_MERGE_REQUEST_IID
set -eu
name=${1:-preview}
# GitLab does not show it.
mark="<!-- gpu-rollout $name -->"
notes=$CI_API_V4_URL/projects/$CI_PROJECT_ID/merge_requests/$CI_MERGE_REQUEST_IID/notes

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Not an argument, because other processes can read arguments.
(umask 077 && printf 'PRIVATE-TOKEN: %s\n' "$GITLAB_TOKEN" >"$work/token")
# call URL OPTION…
call() {
  url=$1
  shift
  curl --fail --silent --show-error --header "@$work/token" --header 'Content-Type: application/json' "$@" "$url"
}

{
  echo "$mark"
  cat
} | jq --raw-input --slurp '{body: .}' >"$work/note"
user=$(call "$CI_API_V4_URL/user" | jq .id)
id=
page=1
while [ -z "$id" ]; do
  call "$notes?per_page=100&page=$page" >"$work/notes"
  [ "$(jq length "$work/notes")" -gt 0 ] || break
  # Another user's note with the same mark stays as it is.
  id=$(jq --raw-output --arg mark "$mark" --argjson user "$user" \
    '[.[] | select(.author.id == $user and (.body | startswith($mark)))][0].id // empty' "$work/notes")
  page=$((page + 1))
done
if [ -n "$id" ]; then
  call "$notes/$id" --request PUT --data "@$work/note" >/dev/null
else
  call "$notes" --request POST --data "@$work/note" >/dev/null
fi
