# etcd for the test cluster, from the binaries that build.sh made; stands in for upstream's image.
ARG BASE
FROM ${BASE}
COPY etcd etcdctl etcdutl /usr/local/bin/
ENTRYPOINT ["/usr/local/bin/etcd"]
