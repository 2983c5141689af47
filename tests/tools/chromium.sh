#!/bin/sh
# Prints the path of a headless Chromium, which opens the page of `gpu-rollout report` and the site of all pages; installs Debian's package if there is none (scripts/needs.sh).
set -eu
"$(dirname -- "$0")/../../scripts/needs.sh" chromium
for name in chromium chromium-browser google-chrome; do
  ! command -v "$name" || exit 0
done
exit 1
