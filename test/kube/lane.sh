#!/usr/bin/env bash
# Runs a command with processes, network and mounts of its own, so that a second test cluster can be up beside that of
# the machine: lane.sh NAME npm run e2e -- --only 38. Everything in it ends with the command; no network leads out.
set -euo pipefail
export KUBE_HOME=${TMPDIR:-/tmp}/tsdb-kube-$1; shift
rm -rf "$KUBE_HOME" "$KUBE_HOME.lock"
# What needs the network.
node "$(dirname "$0")/prepare_image_context.mjs"
exec unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private bash -c '
  ip link set lo up
  # Every kubelet has its sockets in the one, and pods their networks in the other.
  for folder in /var/lib/kubelet /run/netns; do mkdir -p "$folder"; mount -t tmpfs tmpfs "$folder"; done
  "$@"' lane "$@"
