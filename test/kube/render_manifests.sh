#!/usr/bin/env bash
# Writes manifests/operator.yaml from the chart: the same objects for those who use no Helm. A test holds them equal.
# Usage: render_manifests.sh [OUT]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:-$root/manifests/operator.yaml}
{
  printf '# The operator in the namespace tsdb-system with its definitions and rights. Made from helm/tsdb by\n'
  printf '# test/kube/render_manifests.sh. Apply server-side: kubectl apply --server-side -f manifests/operator.yaml\n'
  printf 'apiVersion: v1\nkind: Namespace\nmetadata:\n  name: tsdb-system\n'
  helm template tsdb "$root/helm/tsdb" --namespace tsdb-system --kube-version 1.34.0
} > "$out"
