#!/bin/sh
# Installs gpu-rollout, after it has compared the checksum of the download. As kubectl's plugin, the program also
# runs as `kubectl gpu-rollout`.
#
#   curl --proto '=https' -fsSL URL/install.sh | sh
#   curl --proto '=https' -fsSL URL/install.sh | sh -s -- -b "$HOME/bin"
set -eu

# A release sets these two (scripts/release/install-script.sh).
release_version=
release_url=

usage() {
  cat <<'USAGE'
usage: install.sh [-b DIR] [-v VERSION] [-u URL] [-a ARCHIVE] [-k KEY]

  -b DIR      where the program is installed (default: /usr/local/bin for root, otherwise ~/.local/bin); if the
              name ends in /bin, manual pages and completions are installed in share next to it
  -v VERSION  the version (default: the version of this script)
  -u URL      the directory with the files of the release (default: the release of this script)
  -a ARCHIVE  install this archive instead of downloading one; checksums.txt must be in the same directory
  -k KEY      also verify the signature of checksums.txt with this public key; needs cosign
USAGE
}

fail() {
  echo "install.sh: $1" >&2
  [ $# -lt 2 ] || echo "hint: $2" >&2
  exit 1
}

# archive_name VERSION: the name of the archive for this machine
archive_name() {
  case $(uname -s) in
  Linux) system=linux ;;
  Darwin) system=darwin ;;
  *) fail "there is no release for $(uname -s)" 'build it from source' ;;
  esac
  case $(uname -m) in
  x86_64 | amd64) architecture=x86_64 ;;
  aarch64 | arm64) architecture=aarch64 ;;
  *) fail "there is no release for $(uname -m)" 'build it from source' ;;
  esac
  echo "gpu-rollout-$1-$system-$architecture.tar.gz"
}

# download URL FILE
download() {
  # Not wget: it has no option against a redirect from https:// to an address without encryption.
  command -v curl >/dev/null ||
    fail 'cannot download anything without curl' 'install curl, or download the archive and checksums.txt and pass -a ARCHIVE'
  case $1 in
  https://*) curl --proto '=https' --tlsv1.2 --fail --silent --show-error --location --output "$2" "$1" ;;
  *) curl --fail --silent --show-error --location --output "$2" "$1" ;;
  esac || fail "cannot download $1"
}

# digest FILE: its SHA-256
digest() {
  if command -v sha256sum >/dev/null; then
    sha256sum "$1"
  elif command -v shasum >/dev/null; then
    shasum -a 256 "$1"
  else
    fail 'cannot compute checksums' 'install sha256sum or shasum'
  fi | cut -d' ' -f1
}

# check ARCHIVE CHECKSUMS: compares the archive with its line
check() {
  name=$(basename -- "$1")
  expected=$(awk -v name="$name" '$2 == name { print $1 }' "$2")
  [ -n "$expected" ] || fail "checksums.txt has no line for $name"
  found=$(digest "$1")
  [ -n "$found" ] || exit 1
  [ "$found" = "$expected" ] ||
    fail "the checksum of $name is $found, but checksums.txt says $expected" 'download it again; do not use this file'
}

# place MODE FILE TARGET: replaces the target at once, also if it is a program that runs
place() {
  mkdir -p "$(dirname -- "$3")"
  cp "$2" "$3.new"
  chmod "$1" "$3.new"
  mv -f "$3.new" "$3"
}

main() {
  version=$release_version
  url=$release_url
  archive=
  key=
  if [ "$(id -u)" -eq 0 ]; then bin=/usr/local/bin; else bin=$HOME/.local/bin; fi
  while getopts b:v:u:a:k:h option; do
    case $option in
    b) bin=${OPTARG%/} ;;
    v) version=${OPTARG#v} ;;
    u) url=${OPTARG%/} ;;
    a) archive=$OPTARG ;;
    k) key=$OPTARG ;;
    h)
      usage
      exit
      ;;
    *)
      usage >&2
      exit 2
      ;;
    esac
  done
  shift $((OPTIND - 1))
  [ $# -eq 0 ] || {
    usage >&2
    exit 2
  }
  # The release of another version has another address.
  if [ -n "$release_url" ] && [ "$url" = "$release_url" ]; then
    url=${url%"v$release_version"}v$version
  fi

  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' HUP INT TERM
  if [ -n "$archive" ]; then
    [ -f "$archive" ] || fail "there is no file $archive"
    checksums=$(dirname -- "$archive")/checksums.txt
    [ -f "$checksums" ] || fail "there is no file $checksums" 'download checksums.txt of the same release'
  else
    [ -n "$url" ] || fail 'this script does not know where its release is' 'pass -u URL and -v VERSION, or -a ARCHIVE'
    [ -n "$version" ] || fail 'no version' 'pass -v VERSION'
    name=$(archive_name "$version")
    archive=$work/$name
    checksums=$work/checksums.txt
    download "$url/checksums.txt" "$checksums"
    [ -z "$key" ] || download "$url/checksums.txt.sigstore.json" "$checksums.sigstore.json"
    download "$url/$name" "$archive"
  fi
  if [ -n "$key" ]; then
    command -v cosign >/dev/null || fail 'cannot verify the signature' 'install cosign, or omit -k'
    cosign verify-blob --key "$key" --insecure-ignore-tlog=true --bundle "$checksums.sigstore.json" "$checksums" ||
      fail "the signature of checksums.txt is not from $key" 'do not use these files'
  fi
  check "$archive" "$checksums"

  tar -xzf "$archive" -C "$work"
  tree=$work/$(basename -- "$archive" .tar.gz)
  [ -f "$tree/gpu-rollout" ] || fail "there is no program in $archive"
  place 755 "$tree/gpu-rollout" "$bin/gpu-rollout"
  ln -sf gpu-rollout "$bin/kubectl-gpu_rollout"
  case $bin in
  */bin)
    share=${bin%/bin}/share
    for page in "$tree"/man/man1/*; do
      place 644 "$page" "$share/man/man1/$(basename -- "$page")"
    done
    place 644 "$tree/completions/gpu-rollout.bash" "$share/bash-completion/completions/gpu-rollout"
    place 644 "$tree/completions/_gpu-rollout" "$share/zsh/site-functions/_gpu-rollout"
    place 644 "$tree/completions/gpu-rollout.fish" "$share/fish/vendor_completions.d/gpu-rollout.fish"
    ;;
  esac
  echo "installed $("$bin/gpu-rollout" --version) as $bin/gpu-rollout"
  case :$PATH: in
  *":$bin:"*) ;;
  *) echo "hint: add $bin to PATH" ;;
  esac
}

# The last line, so that a download that was cut off runs nothing
main "$@"
