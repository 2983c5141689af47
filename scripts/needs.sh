#!/bin/sh
# Checks that the needed programs are installed, before anything is built. As root on Debian,
# installs the packages of missing programs.
# Usage: scripts/needs.sh [--list] NAME…   a set of programs, or one program of the table below
#        --list: prints the rows of the table, and checks nothing
set -euf
cd "$(dirname -- "$0")/.."

# Columns: sets, program (alternatives separated by `|`), Debian package (`-`: the script installs
# none), purpose of the program. The sets:
#   image       `make image`                              stack  a cluster of the end-to-end tests
#   scenarios   any end-to-end test may be selected       e2e    all of them run
#   ci          .ci/run                               fuzz   `make soak`, its fuzzer
#   release     `make release`, in addition to image  musl   a release for musl
#   push        scripts/release/push.sh and public.sh     order  scripts/function-order.sh
# Of Debian's essential programs, only setpriv and sha256sum are in the table: other systems may
# lack them.
table() {
  cat <<'TABLE'
image,stack,fuzz,release cargo - compiles this project
image,stack,fuzz,release cc build-essential links this project
fuzz c++ build-essential compiles libFuzzer
image buildah buildah builds the image
image readelf binutils checks that a program is static
stack go - builds the pinned programs of tests/tools, such as the API server
stack bwrap bubblewrap runs the pods of the worker nodes
stack setpriv util-linux ends each process together with its test
stack kill procps sends signals to processes and their children
scenarios,release git git serves repositories to Flux and Argo CD, and exports the commit of a release
release,e2e jq jq writes the index of images, the bill of materials and the provenance
release,push sha256sum coreutils computes digests
musl musl-gcc musl-tools compiles C code for musl
order valgrind valgrind records the functions that a program executes
push,e2e skopeo skopeo copies images to and from a registry
e2e redis-server redis-server is the cache of Argo CD (its service does not have to run)
e2e chromium|chromium-browser|google-chrome chromium opens the page of `gpu-rollout report`, and the site of all pages
e2e promtool - checks alerts and metrics
ci make make runs the stages
ci ps procps shows the processes that a stage left behind
ci shellcheck shellcheck checks the shell scripts
TABLE
}

# rows_of NAME…: the rows of sets and programs, in the order of the table
rows_of() {
  table | awk -v names="$*" '
    BEGIN { count = split(names, name, " ") }
    {
      wanted = 0
      for (i = 1; i <= count; i++) if (index("," $1 ",", "," name[i] ",") || index("|" $2 "|", "|" name[i] "|")) wanted = known[i] = 1
      if (wanted) print
    }
    END {
      if (!count) { print "scripts/needs.sh: expected the name of a set or program" >"/dev/stderr"; exit 2 }
      for (i = 1; i <= count; i++) if (!known[i]) { print "scripts/needs.sh: no set or program is called " name[i] >"/dev/stderr"; exit 2 }
    }'
}

# in_path NAME: `command -v` also finds builtins of the shell, such as `kill`, which other programs
# cannot start.
in_path() (
  IFS=:
  for directory in $PATH; do
    [ ! -f "$directory/$1" ] || [ ! -x "$directory/$1" ] || exit 0
  done
  exit 1
)

# is_installed PROGRAM[|PROGRAM…]
is_installed() {
  for alternative in $(echo "$1" | tr '|' ' '); do
    ! in_path "$alternative" || return 0
  done
  # On Debian, a script extracts promtool from a package without installing the package.
  [ "$1" = promtool ] && tests/tools/promtool.sh >/dev/null 2>&1
}

# modules: the directories of tests/tools that are built
modules() {
  case " $names " in *" scenarios "*) tests/tools/build.sh --list ;; *) tests/tools/build.sh --list stack ;; esac | cut -d' ' -f1 | uniq
}

# go_version: the newest Go version that one of the modules requires
go_version() {
  for module in $(modules); do
    sed -n 's/^go //p' "tests/tools/$module/go.mod"
  done | sort -V | tail -n 1
}

# Go itself checks its version, or downloads a newer one (GOTOOLCHAIN).
check_go() {
  for module in $(modules); do
    message=$(cd "tests/tools/$module" && go list -m 2>&1) || {
      echo "scripts/needs.sh: go cannot build tests/tools/$module: $message" >&2
      echo "hint: install Go $(go_version) or later" >&2
      exit 1
    }
  done
}

check_user_namespaces() {
  bwrap --unshare-user --unshare-pid --ro-bind / / true || {
    echo "scripts/needs.sh: bubblewrap cannot create a user namespace" >&2
    echo "hint: allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)" >&2
    exit 1
  }
}

# how_to_install PROGRAM: the hint for a program without a package
how_to_install() {
  case $1 in
  cargo) echo "hint: install a Rust toolchain with rustup" ;;
  go) echo "hint: install Go $(go_version) or later" ;;
  promtool) echo "hint: install promtool, which is a part of Prometheus" ;;
  esac
}

# forbid_services: until this script ends, no package can start its service.
forbid_services() {
  policy=/usr/sbin/policy-rc.d
  [ ! -e "$policy" ] || return 0
  trap 'rm -f "$policy"' EXIT
  trap 'exit 1' HUP INT TERM
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
}

install_packages() {
  # apt-get refuses to run twice at once, and scenarios run in parallel.
  exec 9<scripts/needs.sh
  flock 9
  case " $packages " in *" redis-server "*) forbid_services ;; esac
  apt-get update -qq >&2
  # shellcheck disable=SC2086 # a list of packages
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >&2
  case " $packages " in
  # Do not start the service at the next boot either. Without systemd, there is nothing to disable.
  *" redis-server "*) systemctl --quiet disable redis-server.service 2>/dev/null || true ;;
  esac
}

if [ "${1:-}" = --list ]; then
  shift
  rows_of "$@"
  exit
fi
names=$*
rows=$(rows_of "$@")
needs() { echo "$rows" | awk -v name="$1" '$2 == name { found = 1 } END { exit !found }'; }

missing=
packages=
manual=
while read -r _ program package reason; do
  ! is_installed "$program" || continue
  missing="$missing  ${program%%|*} $reason
"
  case " $packages " in *" $package "*) continue ;; esac
  if [ "$package" = - ]; then manual="$manual $program"; else packages="${packages:+$packages }$package"; fi
done <<ROWS
$rows
ROWS

can_install=
[ "$(id -u)" -ne 0 ] || ! in_path apt-get || can_install=yes
if [ -n "$manual" ] || { [ -n "$packages" ] && [ -z "$can_install" ]; }; then
  printf 'scripts/needs.sh: missing programs:\n%s' "$missing" >&2
  for program in $manual; do
    how_to_install "$program" >&2
  done
  [ -z "$packages" ] || [ -n "$can_install" ] || echo "hint: install with your package manager (Debian: apt-get install $packages); as root on Debian, this script does it" >&2
  [ "$names" != image ] || echo "hint: or build the image with docker buildx (docs/image.md)" >&2
  exit 1
fi
! needs go || check_go
[ -z "$packages" ] || install_packages
! needs bwrap || check_user_namespaces
