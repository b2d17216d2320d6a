#!/usr/bin/env bash
# Builds a Kubernetes control plane, kubelet, kube-proxy, kubectl, etcd, Helm, CoreDNS and CNI plugins from their Go
# modules into $KUBE_BIN (default ~/.cache/tsdb-kube/bin-VERSION), and installs containerd, runc, podman and debootstrap
# when they are missing. About 10 minutes on 2 cores the first time, nothing when all is there.
# Usage: build.sh [1.34.4]; versions that are complete as Go modules: 1.34.3, 1.34.4, 1.35.4, 1.36.3.
set -euo pipefail
version=${1:-1.34.4}
bin=${KUBE_BIN:-$HOME/.cache/tsdb-kube/bin-$version}
mkdir -p "$bin"
bin=$(cd "$bin" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/kube" "$work/etcd" "$work/pause"
missing=
for program in containerd ctr runc iptables ip jq openssl podman debootstrap python3; do command -v "$program" > /dev/null || missing=yes; done
if [ -n "$missing" ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq containerd runc iptables iproute2 jq openssl podman debootstrap python3 > /dev/null
fi
have() { for f in "$@"; do [ -x "$bin/$f" ] || return 1; done; }

if ! have kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl; then
  cd "$work/kube"
  staging=v0.${version#1.}
  source=$(go mod download -json "k8s.io/kubernetes@v$version" | jq -r .Dir)
  {
    printf 'module kubetools\n\ngo %s\n\ngodebug default=go1.24\n\nrequire k8s.io/kubernetes v%s\n' "$(awk '/^go /{print $2}' "$source/go.mod")" "$version"
    printf '\nreplace (\n'; awk -v s="$staging" '/=> .\/staging/ && !/sample-/ {print "\t" $1 " => " $1 " " s}' "$source/go.mod"; printf ')\n'
    # start from the versions that this release was built with
    printf '\nrequire (\n'
    awk '/^require \(/{f=1;next} /^\)/{f=0} f && $1 !~ /^k8s.io\/(sample|.*)$/ || (f && $1 ~ /^k8s.io\// && $2 != "v0.0.0") {print "\t" $1 " " $2 " // indirect"}' "$source/go.mod"
    awk -v s="$staging" '/=> .\/staging/ && !/sample-/ {print "\t" $1 " " s " // indirect"}' "$source/go.mod"
    printf ')\n'
  } > go.mod
  printf '//go:build tools\n\npackage tools\n\nimport (\n' > tools.go
  for c in kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl; do printf '\t_ "k8s.io/kubernetes/cmd/%s"\n' "$c" >> tools.go; done
  printf ')\n' >> tools.go
  go mod tidy
  stamp="-X k8s.io/component-base/version.gitVersion=v$version -X k8s.io/client-go/pkg/version.gitVersion=v$version"
  CGO_ENABLED=0 go build -ldflags "-s -w $stamp" -o "$bin/" k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kube-scheduler,kubelet,kube-proxy,kubectl}
fi

if ! have etcd etcdctl etcdutl; then
  cd "$work/etcd"
  printf 'module etcdtools\n\ngo 1.24.0\n\nrequire (\n' > go.mod
  for m in server etcdctl etcdutl; do printf '\tgo.etcd.io/etcd/%s/v3 v3.6.7\n' "$m" >> go.mod; done
  printf ')\n' >> go.mod
  printf '//go:build tools\n\npackage tools\n\nimport (\n\t_ "go.etcd.io/etcd/server/v3"\n\t_ "go.etcd.io/etcd/etcdctl/v3"\n\t_ "go.etcd.io/etcd/etcdutl/v3"\n)\n' > tools.go
  go mod tidy
  CGO_ENABLED=0 go build -o "$bin/etcd" go.etcd.io/etcd/server/v3
  CGO_ENABLED=0 go build -o "$bin/etcdctl" go.etcd.io/etcd/etcdctl/v3
  CGO_ENABLED=0 go build -o "$bin/etcdutl" go.etcd.io/etcd/etcdutl/v3
fi

have helm || GOBIN=$bin go install helm.sh/helm/v3/cmd/helm@v3.22.0
have coredns || GOBIN=$bin go install github.com/coredns/coredns@v1.15.0
for p in main/bridge main/loopback ipam/host-local; do
  have "${p##*/}" || CGO_ENABLED=0 GOBIN=$bin go install "github.com/containernetworking/plugins/plugins/$p@v1.9.1"
done
if ! have pause; then
  cd "$work/pause"
  printf 'package main\n\nimport (\n\t"os"\n\t"os/signal"\n\t"syscall"\n)\n\nfunc main() {\n\tc := make(chan os.Signal, 1)\n\tsignal.Notify(c, syscall.SIGINT, syscall.SIGTERM)\n\t<-c\n}\n' > main.go
  CGO_ENABLED=0 go build -o "$bin/pause" main.go
fi
echo "$bin"
