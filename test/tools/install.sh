#!/usr/bin/env bash
# Builds the programs that tests use and npm cannot bring, from their Go modules: etcd and etcdctl, Prometheus and
# promtool. Needs Go. Nothing is done for what is there. Usage: install.sh [FOLDER], default ~/.cache/tsdb/tools,
# where the tests look. About 7 minutes of two cores the first time.
set -euo pipefail
folder=${1:-${TSDB_TEST_TOOLS:-$HOME/.cache/tsdb/tools}}
etcd_version=v3.6.7
prometheus_version=v0.315.0 # the module version of Prometheus 3.15
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A module that only requires the commands; `go build` then makes them at these versions.
tools_module() { # module-lines… -- package…
  local requires=() packages=()
  while [ "$1" != -- ]; do requires+=("$1"); shift; done
  shift
  packages=("$@")
  {
    printf 'module tools\n\ngo 1.25.0\n\n'
    printf 'require %s\n' "${requires[@]}"
  } > go.mod
  {
    printf '//go:build tools\n\npackage tools\n\nimport (\n'
    printf '\t_ "%s"\n' "${packages[@]}"
    printf ')\n'
  } > tools.go
  go mod tidy > /dev/null
}

if [ ! -x "$folder/etcd" ] || [ ! -x "$folder/etcdctl" ]; then
  echo "building etcd $etcd_version"
  mkdir -p "$work/etcd" && cd "$work/etcd"
  tools_module "go.etcd.io/etcd/server/v3 $etcd_version" "go.etcd.io/etcd/etcdctl/v3 $etcd_version" \
    -- go.etcd.io/etcd/server/v3 go.etcd.io/etcd/etcdctl/v3
  CGO_ENABLED=0 go build -o "$folder/etcd" go.etcd.io/etcd/server/v3
  CGO_ENABLED=0 go build -o "$folder/etcdctl" go.etcd.io/etcd/etcdctl/v3
fi

if [ ! -x "$folder/prometheus" ] || [ ! -x "$folder/promtool" ]; then
  echo "building Prometheus $prometheus_version"
  mkdir -p "$work/prometheus" && cd "$work/prometheus"
  tools_module "github.com/prometheus/prometheus $prometheus_version" \
    -- github.com/prometheus/prometheus/cmd/prometheus github.com/prometheus/prometheus/cmd/promtool
  CGO_ENABLED=0 go build -o "$folder/" github.com/prometheus/prometheus/cmd/{prometheus,promtool}
fi
ls "$folder"
