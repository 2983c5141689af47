#!/bin/sh
# Prints the target triple of published programs for machines such as this one if they can be built here,
# otherwise that of this machine.
# Usage: scripts/program-target.sh
set -eu
cd "$(dirname -- "$0")/.."
triple=$(rustc -vV | sed -n 's/^host: //p')
# Published programs for Linux are linked with musl.
case $triple in
*-linux-gnu)
  musl=${triple%-gnu}-musl
  if [ -d "$(rustc --print target-libdir --target "$musl")" ] && scripts/needs.sh musl >&2; then triple=$musl; fi
  ;;
esac
echo "$triple"
