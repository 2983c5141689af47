#!/bin/sh
# Prints where a headless Chromium is, and installs Debian's where there is none: it looks at the report's page as people do.
set -eu
for name in chromium chromium-browser google-chrome; do
  if found=$(command -v "$name"); then
    echo "$found"
    exit
  fi
done
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "tests/tools/chromium.sh: missing: chromium" >&2
  echo "hint: install it with your package manager (Debian: apt-get install chromium)" >&2
  exit 1
fi
{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >&2
command -v chromium
