#!/usr/bin/env bash
# Builds the images of the Dockerfiles on a base made here and puts them on every node of the test cluster.
# Usage: images.sh [VERSION=1.34.4] (of Kubernetes, whose folder has the etcd binary). Needs the cluster of up.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
version=${1:-1.34.4}
bin=${KUBE_BIN:-$HOME/.cache/tsdb-kube/bin-$version}
cache=${TSDB_IMAGE_CACHE:-$HOME/.cache/tsdb/images}
tag=${TSDB_IMAGE_TAG:-test}
mkdir -p "$cache"
exec 9> "$cache/lock" && flock 9

if [ ! -f "$cache/base.tar" ]; then
  mirror=$(sed -nE 's/^URIs: *([^ ]+).*/\1/p; s/^deb (\[[^]]*\] )?([^ ]+) .*/\2/p' $(find /etc/apt -name '*.sources' -o -name '*.list') | grep -v security | sed -n 1p)
  rm -rf "$cache/base"
  debootstrap --variant=minbase --include=libatomic1,libstdc++6,ca-certificates bookworm "$cache/base" "$mirror" > "$cache/debootstrap.log"
  rm -rf "$cache"/base/var/cache/apt/* "$cache"/base/var/lib/apt/lists/* "$cache"/base/usr/share/{doc,man,locale,info}/*
  tar -C "$cache/base" -cf "$cache/base.tar.part" . && mv "$cache/base.tar.part" "$cache/base.tar"
  rm -rf "$cache/base"
fi
podman image exists localhost/tsdb-base:1 || podman import -q "$cache/base.tar" localhost/tsdb-base:1 > /dev/null

node "$here/prepare_image_context.mjs"
build() { # name dockerfile context
  podman build -q --runtime runc --ulimit nofile=4096:4096 --ulimit nproc=4096:4096 --format docker \
    --build-arg BASE=localhost/tsdb-base:1 -t "localhost/$1:$tag" -f "$2" "$3" > /dev/null
}
build tsdb-node "$root/node/Dockerfile" "$root/dist/image"
build tsdb-coordinator "$root/coordinator/Dockerfile" "$root/dist/image"
build tsdb-aggregator "$root/aggregator/Dockerfile" "$root/dist/image"
build tsdb-operator "$root/operator/Dockerfile" "$root/dist/image"
mkdir -p "$cache/etcd" && cp -u "$bin/etcd" "$bin/etcdctl" "$bin/etcdutl" "$cache/etcd/"
build tsdb-etcd "$here/etcd.Dockerfile" "$cache/etcd"
images=(localhost/tsdb-{node,coordinator,aggregator,operator,etcd}:"$tag")
ids=$(podman image inspect --format '{{.Id}}' "${images[@]}")
if [ "$ids" != "$(cat "$cache/all.ids" 2> /dev/null)" ]; then
  rm -f "$cache/all.tar" "$cache/all.ids"
  podman save -q -m -o "$cache/all.tar" "${images[@]}"
  echo "$ids" > "$cache/all.ids"
fi
bash "$here/load_image.sh" "$cache/all.tar"
