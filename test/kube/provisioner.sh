#!/usr/bin/env bash
# Dynamic volumes for the class fast-disk on the test cluster, each on the disk of one machine: a folder for each claim, made when a pod that uses the
# claim has a node, and removed with the volume when its policy is Delete. A fresh claim is so a fresh disk, and a
# deleted one a lost disk. Started by up.sh; runs until killed.
set -uo pipefail
home=${KUBE_HOME:-/tmp/tsdb-kube}
export KUBECONFIG=$home/admin.conf
while sleep 0.5; do
  claims=$(kubectl get pvc -A -o json 2> /dev/null) || continue
  jq -c '.items[] | select(.spec.storageClassName == "fast-disk" and .status.phase == "Pending"
      and .metadata.annotations["volume.kubernetes.io/selected-node"] != null and .metadata.deletionTimestamp == null)' <<< "$claims" |
    while read -r claim; do
      uid=$(jq -r .metadata.uid <<< "$claim")
      mkdir -p "$home/volumes/$uid" && chmod 0777 "$home/volumes/$uid"
      jq --arg path "$home/volumes/$uid" '.metadata.annotations["volume.kubernetes.io/selected-node"] as $machine | {
        apiVersion: "v1", kind: "PersistentVolume",
        metadata: {name: ("pvc-" + .metadata.uid), annotations: {"pv.kubernetes.io/provisioned-by": "tsdb.io/test-disk"}},
        spec: {
          capacity: {storage: .spec.resources.requests.storage}, accessModes: .spec.accessModes,
          storageClassName: "fast-disk", persistentVolumeReclaimPolicy: "Delete", hostPath: {path: $path},
          nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: "kubernetes.io/hostname", operator: "In", values: [$machine]}]}]}},
          claimRef: {apiVersion: "v1", kind: "PersistentVolumeClaim", name: .metadata.name, namespace: .metadata.namespace, uid: .metadata.uid}
        }}' <<< "$claim" | kubectl create -f - > /dev/null 2>&1
    done
  kubectl get pv -o json 2> /dev/null |
    jq -r '.items[] | select(.spec.storageClassName == "fast-disk" and .status.phase == "Released"
        and .spec.persistentVolumeReclaimPolicy == "Delete") | .metadata.name + " " + .spec.hostPath.path' |
    while read -r name path; do
      case $path in "$home"/volumes/*) rm -rf "$path" ;; esac
      kubectl delete pv "$name" --wait=false > /dev/null 2>&1
    done
  # A claim that asks for more than its volume has is grown at once.
  kubectl get pvc -A -o json 2> /dev/null |
    jq -r '.items[] | select(.spec.storageClassName == "fast-disk" and .status.phase == "Bound"
        and .spec.resources.requests.storage != .status.capacity.storage)
        | [.metadata.namespace, .metadata.name, .spec.volumeName, .spec.resources.requests.storage] | @tsv' |
    while read -r namespace name volume size; do
      kubectl patch pv "$volume" --type merge -p "{\"spec\":{\"capacity\":{\"storage\":\"$size\"}}}" > /dev/null 2>&1
      kubectl patch pvc -n "$namespace" "$name" --subresource status --type merge -p "{\"status\":{\"capacity\":{\"storage\":\"$size\"}}}" > /dev/null 2>&1
    done
done
