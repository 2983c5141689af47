#!/bin/sh
# `make site`: builds the site of all pages in target/site with mdBook (docs/book.toml), and checks
# its links. The navigation follows the tables of docs/README.md and of the indexes that it names.
# Links between pages, and to other files of the repository, are relative: they lead to the same
# place in the repository and in the site.
# Usage: scripts/site.sh [--unchecked]   (--unchecked: only builds)
set -eu
cd "$(dirname -- "$0")/.."
source=target/site-source
log=target/site.log

# place PAGE: the path of its copy. Web servers and mdBook call the page of a folder index.
place() { echo "$1" | sed 's/README\.md$/index.md/'; }

# files PAGE: the files that it shows or links to, except pages
files() {
  grep -o '][(][^)]*' "$1" | sed -e 's/^](//' -e 's/#.*//' -e '/:\/\//d' -e '/\.md$/d' -e '/^$/d'
}

# add INDENT PAGE [TITLE]: copies a page and its files, and prints its line of the navigation
add() {
  folder=$(dirname -- "$2")
  copy=$(place "$2")
  mkdir -p "$source/$folder"
  sed 's/](\([^):]*\)README\.md/](\1index.md/g' "$2" >"$source/$copy"
  files "$2" | while read -r file; do
    cp --parents -- "$(realpath --relative-to=. -- "$folder/$file")" "$source"
  done
  title=${3:-$(sed -n '/^# /{s///p;q;}' "$2")}
  echo "$1[$title]($copy)"
}

# contents INDEX: the pages in its tables, and the headings above them
contents() { sed -n -e 's/^## /# /p' -e 's/^|.*](\([^)#]*\.md\)).*/\1/p' "$1"; }

navigation() {
  printf '# Summary\n\n'
  add '' README.md Introduction
  add '' docs/README.md
  contents docs/README.md | while read -r line; do
    case $line in '# '*)
      printf '\n%s\n\n' "$line"
      continue
      ;;
    esac
    page=$(realpath --relative-to=. -- "docs/$line")
    add '- ' "$page"
    # The how-to guides have an index of their own. Its pages of other folders are in docs/README.md.
    case $page in docs/*/README.md)
      contents "$page" | grep -v '^\.\./' | while read -r below; do
        add '  - ' "$(dirname -- "$page")/$below"
      done
      ;;
    esac
  done
}

mdbook=$(tests/tools/mdbook.sh)
rm -rf "$source"
mkdir -p "$source"
navigation >"$source/SUMMARY.md"
# A warning is a mistake in a page, such as HTML that is not closed.
if ! MDBOOK_LOG=warn "$mdbook" build docs 2>"$log" || [ -s "$log" ]; then
  cat "$log" >&2
  exit 1
fi
[ "${1:-}" = --unchecked ] || cargo test --quiet --locked --workspace --exclude e2e --test docs site:: -- --ignored
echo target/site/index.html
