#!/usr/bin/env bash
# Writes manifests/crds.yaml and manifests/operator.yaml from the definitions and the chart: the same objects for those
# who use no Helm. Two files, since deleting the definitions deletes every cluster. A test holds them equal.
# Usage: render_manifests.sh [FOLDER]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:-$root/manifests}
{
  printf '# The definitions of the resources. Deleting them deletes every cluster: delete operator.yaml, not this.\n'
  printf '# kubectl apply --server-side -f manifests/crds.yaml -f manifests/operator.yaml\n'
  for name in tsdbclusters tsdbnamespaces; do printf -- '---\n'; cat "$root/crds/$name.yaml"; done
} > "$out/crds.yaml"
{
  printf '# The operator in the namespace tsdb-system with its rights. Made from helm/tsdb by test/kube/render_manifests.sh.\n'
  printf '# kubectl apply --server-side -f manifests/crds.yaml -f manifests/operator.yaml\n'
  printf 'apiVersion: v1\nkind: Namespace\nmetadata:\n  name: tsdb-system\n'
  helm template tsdb "$root/helm/tsdb" --namespace tsdb-system --kube-version 1.34.0 --no-hooks
} > "$out/operator.yaml"
