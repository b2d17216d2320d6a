#!/usr/bin/env bash
# Starts a real Kubernetes on this machine: etcd, API server, controller manager, scheduler, CoreDNS, kube-proxy and
# N kubelets (node1..nodeN, zones a, b, c, b), each with its own containerd. Pods, StatefulSets, Services, volumes,
# exec and logs work. Ready in about 10 s. Usage: up.sh [NODES=4] [VERSION=1.34.4]; then
#   export KUBECONFIG=$KUBE_HOME/admin.conf        (KUBE_HOME defaults to /tmp/tsdb-kube)
# Everything stays on a bridge inside this machine; routes keep pod and service addresses from ever leaving it.
# The storage class fast-disk is there; provisioner.sh makes its volumes.
set -euo pipefail
nodes=${1:-4}; version=${2:-1.34.4}
here=$(cd "$(dirname "$0")" && pwd)
bin=${KUBE_BIN:-$HOME/.cache/tsdb-kube/bin-$version}
home=${KUBE_HOME:-/tmp/tsdb-kube}
mkdir -p "$home"/{pki,log,etcd,cni,run}; cd "$home"; P=$home/pki; export PATH=$bin:$PATH
if [ ! -f "$P/sa.key" ]; then
  openssl genrsa -out "$P/sa.key" 2048 2> /dev/null; openssl rsa -in "$P/sa.key" -pubout -out "$P/sa.pub" 2> /dev/null
  openssl req -x509 -newkey rsa:2048 -nodes -keyout "$P/ca.key" -out "$P/ca.crt" -days 365 -subj /CN=ca 2> /dev/null
fi
certificate() { # name subject alternative-names
  [ -f "$P/$1.crt" ] && return
  openssl req -newkey rsa:2048 -nodes -keyout "$P/$1.key" -out "$P/$1.csr" -subj "$2" 2> /dev/null
  printf 'subjectAltName=%s' "$3" > "$P/$1.ext"
  openssl x509 -req -in "$P/$1.csr" -CA "$P/ca.crt" -CAkey "$P/ca.key" -CAcreateserial -days 365 -out "$P/$1.crt" -extfile "$P/$1.ext" 2> /dev/null
}
certificate apiserver /CN=kube-apiserver "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:10.96.0.1,IP:10.244.0.1"
certificate admin "/O=system:masters/CN=admin" DNS:admin
# Not of the range from which the system takes the local ports of connections: one could come before the server.
# Each is held until all are chosen, so that no two are alike.
free_ports() { # count
  python3 -c '
import random, socket, sys
held = []
while len(held) < int(sys.argv[1]):
    one = socket.socket()
    try:
        one.bind(("", random.randrange(12000, 13000)))
    except OSError:
        continue
    held.append(one)
print(*(one.getsockname()[1] for one in held))' "$1"
}
read -r etcd_port etcd_peer_port api_port <<< "$(free_ports 3)"
etcd=http://127.0.0.1:$etcd_port; etcd_peer=http://127.0.0.1:$etcd_peer_port
kubeconfig() { # file certificate
  cat > "$1" <<K
apiVersion: v1
kind: Config
clusters: [{name: local, cluster: {server: "https://127.0.0.1:$api_port", certificate-authority: $P/ca.crt}}]
users: [{name: user, user: {client-certificate: $P/$2.crt, client-key: $P/$2.key}}]
contexts: [{name: local, context: {cluster: local, user: user}}]
current-context: local
K
}
kubeconfig admin.conf admin
# run/NAME.sh starts it again when a test has ended it.
run() {
  local name=$1; shift
  printf 'cd %q; setsid %s >> log/%s.log 2>&1 & echo $! > run/%s.pid\n' "$home" "$(printf '%q ' "$@")" "$name" "$name" > "run/$name.sh"
  bash "run/$name.sh"
}
# As run does; one that panics (exit code 2) begins again, as systemd has it do. One that was killed stays away.
run_again() {
  local name=$1; shift
  # shellcheck disable=SC2016
  printf 'cd %q; setsid bash -c %q again run/%s.pid %s >> log/%s.log 2>&1 &\n' "$home" \
    'pid=$1; shift; while :; do "$@" & echo $! > "$pid"; wait $!; [ $? -eq 2 ] || exit; sleep 1; done' "$name" "$(printf '%q ' "$@")" "$name" > "run/$name.sh"
  bash "run/$name.sh"
}
# Kubelets without groups of pods in the kernel's hierarchy panic where they look for what a resize has made of them.
case $version in 1.3[0-4].*) gates='{InPlacePodVerticalScaling: false}' ;; *) gates='{}' ;; esac
ls /run/netns > run/netns.before 2> /dev/null || true
ip link show cni0 > /dev/null 2>&1 || { ip link add cni0 type bridge; ip addr add 10.244.0.1/24 dev cni0; ip link set cni0 up; }
ip route replace blackhole 10.244.0.0/16 metric 4000; ip route replace 10.96.0.0/16 dev cni0 src 10.244.0.1 metric 4000
echo 1 > /proc/sys/net/ipv4/ip_forward
# Every write of an operator is a line of log/audit.log, so that it can be counted.
cat > audit.yaml <<K
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: Metadata, verbs: [create, update, patch, delete], userGroups: ["system:serviceaccounts:tsdb-system", "system:serviceaccounts:default"]}
  - {level: None}
K
run etcd "$bin/etcd" --data-dir etcd --listen-client-urls "$etcd" --advertise-client-urls "$etcd" \
  --listen-peer-urls "$etcd_peer" --initial-advertise-peer-urls "$etcd_peer" --initial-cluster "default=$etcd_peer"
run apiserver "$bin/kube-apiserver" --etcd-servers="$etcd" --bind-address=0.0.0.0 --advertise-address=10.244.0.1 --secure-port="$api_port" \
  --tls-cert-file="$P/apiserver.crt" --tls-private-key-file="$P/apiserver.key" --client-ca-file="$P/ca.crt" \
  --service-account-key-file="$P/sa.pub" --service-account-signing-key-file="$P/sa.key" --service-account-issuer=https://kubernetes.default.svc \
  --service-cluster-ip-range=10.96.0.0/16 --authorization-mode=Node,RBAC --allow-privileged=true \
  --audit-policy-file=audit.yaml --audit-log-path=log/audit.log --default-not-ready-toleration-seconds=30 --default-unreachable-toleration-seconds=30 \
  --kubelet-client-certificate="$P/admin.crt" --kubelet-client-key="$P/admin.key" --kubelet-preferred-address-types=InternalIP
all_alive() {
  for f in run/*.pid; do
    kill -0 "$(cat "$f")" 2> /dev/null && continue
    echo "$f has ended:" >&2; tail -n 3 "log/$(basename "$f" .pid).log" >&2; exit 1
  done
}
until_true() { for _ in $(seq 120); do all_alive; "$@" > /dev/null 2>&1 && return; sleep 0.5; done; echo "never true: $*; see $home/log" >&2; exit 1; }
until_true kubectl --kubeconfig admin.conf get --raw /readyz
run controller-manager "$bin/kube-controller-manager" --kubeconfig=admin.conf --service-account-private-key-file="$P/sa.key" --root-ca-file="$P/ca.crt" \
  --use-service-account-credentials=true --leader-elect=false --node-monitor-grace-period=20s
run scheduler "$bin/kube-scheduler" --kubeconfig=admin.conf --leader-elect=false
printf 'cluster.local:53 {\n  bind 10.244.0.1\n  errors\n  kubernetes cluster.local {\n    kubeconfig %s local\n    pods insecure\n    ttl 1\n  }\n}\n' "$home/admin.conf" > Corefile
run coredns "$bin/coredns" -conf Corefile
cat > proxy.yaml <<K
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clusterCIDR: 10.244.0.0/16
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
clientConnection: {kubeconfig: $home/admin.conf}
K
run kube-proxy "$bin/kube-proxy" --config proxy.yaml --hostname-override node1
cat > cni/10-bridge.conflist <<K
{"cniVersion":"0.4.0","name":"kube","plugins":[{"type":"bridge","bridge":"cni0","isGateway":true,"ipMasq":false,"hairpinMode":true,"ipam":{"type":"host-local","dataDir":"$home/ipam","ranges":[[{"subnet":"10.244.0.0/24","rangeStart":"10.244.0.2","rangeEnd":"10.244.0.239"}]],"routes":[{"dst":"0.0.0.0/0"}]}},{"type":"loopback"}]}
K
if [ ! -f pause.tar ]; then mkdir -p pause-root; cp "$bin/pause" pause-root/; python3 "$here/image.py" localhost/pause:1 pause-root '["/pause"]' pause.tar; fi
# One zone has a machine to spare: a node that is lost there can come back.
zones=(a b c b)
for i in $(seq "$nodes"); do
  n=node$i; mkdir -p "$n"
  ip addr add "10.244.0.$((240 + i))/32" dev cni0 2> /dev/null || true
  certificate "$n" "/O=system:nodes/CN=system:node:$n" "DNS:$n,IP:127.0.0.1,IP:10.244.0.$((240 + i))"
  kubeconfig "$n/kubelet.conf" "$n"
  cat > "$n/containerd.toml" <<K
version = 2
root = "$home/$n/containerd"
state = "$home/$n/containerd-state"
[grpc]
  address = "$home/$n/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  disable_hugetlb_controller = true
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$bin"
    conf_dir = "$home/cni"
K
  run "$n-containerd" containerd -c "$n/containerd.toml"
  cat > "$n/kubelet.yaml" <<K
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {x509: {clientCAFile: $P/ca.crt}, anonymous: {enabled: false}, webhook: {enabled: true}}
address: 10.244.0.$((240 + i))
healthzPort: 0
cgroupDriver: cgroupfs
cgroupRoot: /
failSwapOn: false
failCgroupV1: false
clusterDNS: ["10.244.0.1"]
clusterDomain: cluster.local
podLogsDir: $home/$n/logs
containerRuntimeEndpoint: unix://$home/$n/containerd.sock
tlsCertFile: $P/$n.crt
tlsPrivateKeyFile: $P/$n.key
cgroupsPerQOS: false
enforceNodeAllocatable: []
localStorageCapacityIsolation: false
evictionHard: {memory.available: "100Mi", nodefs.available: "1%", imagefs.available: "1%"}
resolvConf: /dev/null
featureGates: $gates
K
done
sleep 1
# Every kubelet empties this folder and listens there, whatever its root folder is: two at once would meet at one address.
plugins=/var/lib/kubelet/device-plugins/kubelet.sock
for i in $(seq "$nodes"); do
  n=node$i
  for _ in $(seq 40); do [ -S "$n/containerd.sock" ] && break; sleep 0.25; done
  ctr -a "$home/$n/containerd.sock" -n k8s.io images import pause.tar > /dev/null
  rm -f "$plugins"
  run_again "$n-kubelet" "$bin/kubelet" --config "$n/kubelet.yaml" --kubeconfig "$n/kubelet.conf" --root-dir "$home/$n/kubelet" --hostname-override "$n" --node-ip="10.244.0.$((240 + i))" \
    --node-labels="topology.kubernetes.io/zone=${zones[$(((i - 1) % 4))]}"
  until_true test -S "$plugins"
done
for i in $(seq "$nodes"); do
  until_true sh -c "kubectl --kubeconfig admin.conf get node node$i | grep -q ' Ready'"
done
kubectl --kubeconfig admin.conf get nodes -L topology.kubernetes.io/zone
cat <<K | kubectl --kubeconfig admin.conf apply -f - > /dev/null
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast-disk}
provisioner: tsdb.io/test-disk
volumeBindingMode: WaitForFirstConsumer
reclaimPolicy: Delete
allowVolumeExpansion: true
---
# These kubelets have no groups of pods in the kernel's hierarchy and end on a resize in place.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-resize}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [''], apiVersions: [v1], operations: [UPDATE], resources: [pods/resize]}
  validations:
    - {expression: 'false', message: these machines cannot resize pods in place}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-resize}
spec: {policyName: no-resize, validationActions: [Deny]}
K
run provisioner bash "$here/provisioner.sh"
sleep 0.2; all_alive
