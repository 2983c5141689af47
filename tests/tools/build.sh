#!/bin/sh
# Builds the programs that the end-to-end tests run (API server, etcd, kwok, Helm …) from pinned Go modules, once,
# into a cache outside the checkout, and prints the directory. A folder is one Go module: its go.mod pins the version,
# its line in `tools` below names what is built from it.
# Usage: tests/tools/build.sh [NAME…]   (default: every tool of the short end-to-end set; the deployers that run in the cluster are not
# among them, the scenarios that need one ask for it by name)
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
cache=${GPU_ROLLOUT_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/gpu-rollout/tools}

kubernetes_version=$(sed -n 's/^require k8s.io\/kubernetes v//p; s/^\tk8s.io\/kubernetes v\([^ ]*\).*/\1/p' "$here/kubernetes/go.mod" | head -n 1)
version_package=k8s.io/component-base/version
stamp="-X $version_package.gitVersion=v$kubernetes_version -X $version_package.gitMajor=$(echo "$kubernetes_version" | cut -d. -f1) -X $version_package.gitMinor=$(echo "$kubernetes_version" | cut -d. -f2)"

# module folder, binary, package
tools() {
  cat <<TOOLS
etcd etcd go.etcd.io/etcd/server/v3
kubernetes kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
kubernetes kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager
kubernetes kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler
kwok kwok sigs.k8s.io/kwok/cmd/kwok
helm3 helm3 helm.sh/helm/v3/cmd/helm
helm4 helm4 helm.sh/helm/v4/cmd/helm
helmfile helmfile github.com/helmfile/helmfile
kustomize kustomize sigs.k8s.io/kustomize/kustomize/v5
argocd argocd github.com/argoproj/argo-cd/v3/cmd
TOOLS
}

# module folder, Go module, where the CRDs of its programs are in it: they are copied to ../crds/<module folder> beside the programs
crds() {
  cat <<CRDS
argocd github.com/argoproj/argo-cd/v3 manifests/crds
CRDS
}

bin=$cache/bin
mkdir -p "$bin"
wanted=${*:-etcd kube-apiserver kube-controller-manager kube-scheduler kwok helm3 helm4 helmfile kustomize}
for name in $wanted; do
  line=$(tools | awk -v name="$name" '$2 == name')
  [ -n "$line" ] || { echo "tests/tools/build.sh: no tool is called $name" >&2; exit 2; }
  module=$(echo "$line" | cut -d' ' -f1)
  package=$(echo "$line" | cut -d' ' -f3)
  key=$(cat "$here/$module/go.mod" "$here/$module/go.sum" | sha256sum | cut -c1-12)
  binary=$bin/$name-$key
  if [ ! -x "$binary" ]; then
    echo "building $name (once; cached in $bin) …" >&2
    flags="-s -w"
    [ "$module" = kubernetes ] && flags="$flags $stamp"
    ( cd "$here/$module" && CGO_ENABLED=0 GOFLAGS=-mod=mod go build -trimpath -ldflags "$flags" -o "$binary.tmp$$" "$package" )
    mv "$binary.tmp$$" "$binary"
  fi
  ln -sfn "$(basename "$binary")" "$bin/$name"
  copy=$cache/crds/$module-$key
  if [ ! -d "$copy" ] && crds | grep -q "^$module "; then
    rm -rf "$copy.tmp$$"
    mkdir -p "$copy.tmp$$"
    crds | awk -v module="$module" '$1 == module { print $2, $3 }' | while read -r source folder; do
      directory=$(cd "$here/$module" && GOFLAGS=-mod=mod go mod download -json "$source" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
      cp "$directory/$folder"/*.yaml "$copy.tmp$$/"
    done
    chmod -R u+w "$copy.tmp$$"
    mv "$copy.tmp$$" "$copy"
  fi
  [ ! -d "$copy" ] || ln -sfn "$module-$key" "$cache/crds/$module"
done
echo "$bin"
