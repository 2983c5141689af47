#!/bin/sh
# Builds the programs that the end-to-end tests run (API server, etcd, kwok, Helm …) from pinned Go
# modules, once, into a cache outside the checkout. Prints the directory. Each folder is one Go module:
# * its go.mod pins the version
# * its line in `tools` below names the package to build
# * its line in `definitions` names the source of its CustomResourceDefinitions, which are copied to
#   `crds/FOLDER` next to the directory
# Usage: tests/tools/build.sh [--list] [NAME…]   a tool, or a folder for all of its tools (default: all that `make e2e` runs; `stack`: those that
#                                                `make stack` runs; `full`: those that only `make e2e-full` runs;
#                                                those that only `make lint` runs, such as `vale`, are never a part of them)
#        --list: prints folder and name of each tool, and builds nothing
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cache=${GPU_ROLLOUT_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/gpu-rollout/tools}

# stamp FILE: prints the linker's options that set the version of Kubernetes programs, from this go.mod
stamp() {
  version=$(sed -n 's/^require k8s.io\/kubernetes v//p; s/^\tk8s.io\/kubernetes v\([^ ]*\).*/\1/p' "$1" | head -n 1)
  package=k8s.io/component-base/version
  echo "-X $package.gitVersion=v$version -X $package.gitMajor=$(echo "$version" | cut -d. -f1) -X $package.gitMinor=$(echo "$version" | cut -d. -f2)"
}

# module folder, binary, package; if the folder has several sets of versions, the set: the name of its
# VERSION.mod and build tag
tools() {
  cat <<TOOLS
etcd etcd go.etcd.io/etcd/server/v3
kubernetes kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
kubernetes kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager
kubernetes kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler
kubectl kubectl k8s.io/kubernetes/cmd/kubectl
kwok kwok sigs.k8s.io/kwok/cmd/kwok
helm3 helm3 helm.sh/helm/v3/cmd/helm
helm4 helm4 helm.sh/helm/v4/cmd/helm
helmfile helmfile github.com/helmfile/helmfile
kustomize kustomize sigs.k8s.io/kustomize/kustomize/v5
argocd argocd github.com/argoproj/argo-cd/v3/cmd
flux source-controller github.com/fluxcd/source-controller
flux helm-controller github.com/fluxcd/helm-controller
flux kustomize-controller github.com/fluxcd/kustomize-controller
registry registry github.com/distribution/distribution/v3/cmd/registry
cosign cosign github.com/sigstore/cosign/v3/cmd/cosign
read-yaml read-yaml .
upgrade-controller upgrade-controller-26.7 .
upgrade-controller upgrade-controller-26.3 . v26.3
TOOLS
}

# The same for programs that only `make e2e-full` runs: linters, and control planes of other minor versions
# with the newest available patches.
only_full() {
  echo "kubeconform kubeconform github.com/yannh/kubeconform/cmd/kubeconform"
  echo "kube-score kube-score github.com/zegl/kube-score/cmd/kube-score"
  for version in v1.32 v1.33 v1.35; do
    for program in kube-apiserver kube-controller-manager kube-scheduler; do
      echo "kubernetes $program-${version#v} k8s.io/kubernetes/cmd/$program $version"
    done
  done
}

# The same for programs that only `make lint` runs.
single_tools() {
  echo "vale vale github.com/vale-cli/vale/v3/cmd/vale"
  echo "actionlint actionlint github.com/rhysd/actionlint/cmd/actionlint"
}

# The folders of the programs that `make stack` runs. The end-to-end test of the tutorial compares them with the programs that it used.
stack="etcd kubernetes kubectl kwok helm4 upgrade-controller"

# lines_of NAME: the lines of a tool, or of the tools of a folder
lines_of() {
  lines=$(
    if [ "$1" = full ]; then
      only_full
    else
      # `kubernetes` is the version that `make e2e` runs.
      { tools; single_tools; only_full | sed 's/^kubernetes /other-version /'; } | awk -v name="$1" '$1 == name || $2 == name' | sed 's/^other-version /kubernetes /'
    fi
  )
  [ -n "$lines" ] || { echo "tests/tools/build.sh: no tool is called $1" >&2; exit 2; }
  echo "$lines"
}

# module folder, Go module, directory in it
definitions() {
  cat <<DEFINITIONS
argocd github.com/argoproj/argo-cd/v3 manifests/crds
flux github.com/fluxcd/source-controller config/crd/bases
flux github.com/fluxcd/helm-controller config/crd/bases
flux github.com/fluxcd/kustomize-controller config/crd/bases
DEFINITIONS
}

bin=$cache/bin
crds=$cache/crds

# key_of FOLDER [VERSION]
key_of() {
  (
    cd "$here/$1"
    # The key of a program of this project includes its source.
    for file in "${2:-go}.mod" "${2:-go}.sum" *.go; do
      [ ! -f "$file" ] || cat "$file"
    done
  ) | sha256sum | cut -c1-12
}

# build FOLDER TOOL PACKAGE [VERSION]
build() {
  binary=$bin/$2-$(key_of "$1" "${4:-}")
  if [ ! -x "$binary" ]; then
    echo "building $2 (once; cached in $bin) …" >&2
    flags="-s -w"
    case $1 in kube*) flags="$flags $(stamp "$here/$1/${4:-go}.mod")" ;; esac
    versions=
    [ -z "${4:-}" ] || versions="-modfile=$4.mod -tags=$(echo "$4" | tr . _)"
    # The parsers of vale are generated C. Optimization takes minutes and saves seconds.
    case $1 in vale) cgo=1 ;; *) cgo=0 ;; esac
    # The compiler does not write the debug information that the linker would drop, and collects its
    # garbage less often: this takes 17 % less time (measured with Helm 3), and the programs stay the same.
    # shellcheck disable=SC2086 # two options, or none
    ( cd "$here/$1" && CGO_ENABLED=$cgo CGO_CFLAGS=-O0 GOFLAGS=-mod=mod GOGC=${GOGC:-400} go build $versions -trimpath -gcflags=all=-dwarf=false -ldflags "$flags" -o "$binary.tmp$$" "$3" </dev/null )
    mv "$binary.tmp$$" "$binary"
  fi
  ln -sfn "$(basename "$binary")" "$bin/$2"
}

# define FOLDER: copies its CustomResourceDefinitions, if it has any
define() {
  found=$(definitions | awk -v folder="$1" '$1 == folder')
  [ -n "$found" ] || return 0
  directory=$crds/$1-$(key_of "$1")
  if [ ! -d "$directory" ]; then
    mkdir "$directory.tmp$$"
    while read -r folder module path; do
      source=$(cd "$here/$folder" && go mod download "$module" && go list -mod=mod -m -f '{{.Dir}}' "$module")
      install -m 644 "$source/$path"/*.yaml "$directory.tmp$$"
    done <<FOUND
$found
FOUND
    mv "$directory.tmp$$" "$directory"
  fi
  ln -sfn "$(basename "$directory")" "$crds/$1"
}

list=
if [ "${1:-}" = --list ]; then
  list=yes
  shift
fi
wanted=${*:-$(tools | awk '!seen[$1]++ { print $1 }')}
[ "$wanted" != stack ] || wanted=$stack
lines=$(for name in $wanted; do lines_of "$name"; done)
if [ -n "$list" ]; then
  echo "$lines" | cut -d' ' -f1,2
  exit
fi
mkdir -p "$bin" "$crds"
while read -r module tool package version; do
  build "$module" "$tool" "$package" "$version"
  define "$module"
done <<LINES
$lines
LINES
echo "$bin"
