#!/bin/sh
# Prints the install script of a release: it installs its own version from its own repository.
# Usage: scripts/release/install-script.sh SCRIPT VERSION REPOSITORY   (REPOSITORY: a URL on GitHub, or nothing)
set -eu
script=$1
version=$2
repository=$3
url=${repository:+$repository/releases/download/v$version}

case $url in
*[!A-Za-z0-9./:_-]*)
  echo "scripts/release/install-script.sh: not the URL of a repository: $repository" >&2
  exit 2
  ;;
esac
awk -v version="$version" -v url="$url" '
  $0 == "release_version=" { print $0 version; written++; next }
  $0 == "release_url=" { print $0 url; written++; next }
  { print }
  END { exit written != 2 }
' "$script"
