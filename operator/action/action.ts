/** What the operator can do, and by what an attempt is known again. */
import type { InstanceRequest } from '../coordinator/coordinator_client.ts';
import type { EtcdAlarm } from '../etcd/etcd_admin.ts';
import { contentHash } from '../resource/content_hash.ts';
import type { KubeObject, Pod, ResourceRequirements } from '../resource/kube_objects.ts';
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';

export type Action =
  | { readonly kind: 'apply'; readonly object: KubeObject }
  | { readonly kind: 'delete'; readonly object: KubeObject; readonly orphan: boolean }
  | {
      readonly kind: 'scale-set';
      readonly set: KubeObject;
      readonly replicas: number;
      /**
       * What becomes of the volumes of pods that are too many. Delete is for pods that have left the
       * placement, so that a later one of their name starts empty; whoever else makes the set smaller
       * loses no data.
       */
      readonly whenScaled: 'Retain' | 'Delete';
    }
  | { readonly kind: 'etcd-add'; readonly pod: string; readonly peerUrl: string }
  | { readonly kind: 'etcd-promote'; readonly pod: string; readonly memberId: string }
  | { readonly kind: 'etcd-remove'; readonly pod: string; readonly memberId: string }
  | { readonly kind: 'etcd-move-leader'; readonly pod: string; readonly toMemberId: string }
  | { readonly kind: 'etcd-defragment'; readonly pod: string }
  | { readonly kind: 'etcd-compact'; readonly revision: string }
  | { readonly kind: 'etcd-disarm'; readonly alarm: EtcdAlarm }
  | {
      readonly kind: 'evict-pod';
      readonly pod: Pod;
      readonly reason: string;
      /**
       * Pods of its isolation group that go with it: the budget that its eviction has used up keeps
       * everybody else from taking one until all of them are back.
       */
      readonly together: readonly Pod[];
    }
  /** Containers that are changed, with the resources that they are to have; the pod runs on. */
  | {
      readonly kind: 'resize-pod';
      readonly pod: Pod;
      readonly containers: readonly {
        readonly name: string;
        readonly resources?: ResourceRequirements;
      }[];
    }
  /** A pod with its volume when that is given up. */
  | {
      readonly kind: 'replace-pod';
      readonly pod: Pod;
      readonly claim: KubeObject | null;
      /**
       * How it goes when it serves: `first`, before its claim is given up, when nothing brings it here
       * again should that be refused; else `last`. Null for one that does not end by itself.
       */
      readonly evict: 'first' | 'last' | null;
    }
  | { readonly kind: 'expand-claim'; readonly claim: KubeObject; readonly size: string }
  | {
      readonly kind: 'own-claim';
      readonly claim: KubeObject;
      readonly cluster: TsdbCluster;
      /** Whether it is to go when the cluster does. */
      readonly goesWithIt: boolean;
    }
  | {
      readonly kind: 'placement-init';
      readonly numberOfShards: number;
      readonly replicationFactor: number;
      readonly instances: readonly InstanceRequest[];
    }
  | { readonly kind: 'placement-add'; readonly instances: readonly InstanceRequest[] }
  | {
      readonly kind: 'placement-remove';
      readonly instanceIds: readonly string[];
      /** Also while shards move: those that leave have none that is AVAILABLE. */
      readonly force: boolean;
    }
  | { readonly kind: 'placement-approve' }
  | {
      readonly kind: 'aggregators-init';
      readonly numberOfShards: number;
      readonly instances: readonly InstanceRequest[];
    }
  | { readonly kind: 'aggregators-add'; readonly instances: readonly InstanceRequest[] }
  | { readonly kind: 'aggregators-remove'; readonly instanceIds: readonly string[] }
  | { readonly kind: 'aggregators-delete' }
  | { readonly kind: 'upgrade-finish' }
  | { readonly kind: 'namespace-add'; readonly name: string; readonly options: object }
  | { readonly kind: 'namespace-update'; readonly name: string; readonly options: object }
  | { readonly kind: 'namespace-ready'; readonly name: string }
  | { readonly kind: 'namespace-delete'; readonly name: string };

/** What an action is done to: its failures are remembered by it. */
export function keyOf(action: Action): string {
  const object = objectOf(action);
  switch (action.kind) {
    case 'apply':
    case 'delete':
      return `${action.kind} ${action.object.kind}/${object}`;
    default:
      return object === '' ? action.kind : `${action.kind} ${object}`;
  }
}

/** Name of what an action is done to; empty for placements. */
export function objectOf(action: Action): string {
  switch (action.kind) {
    case 'apply':
    case 'delete':
      return action.object.metadata.name;
    case 'scale-set':
      return action.set.metadata.name;
    case 'etcd-add':
    case 'etcd-promote':
    case 'etcd-remove':
    case 'etcd-move-leader':
    case 'etcd-defragment':
      return action.pod;
    case 'etcd-compact':
      return action.revision;
    case 'etcd-disarm':
      return `${action.alarm.kind} ${action.alarm.memberId}`;
    case 'evict-pod':
    case 'resize-pod':
    case 'replace-pod':
      return action.pod.metadata.name;
    case 'expand-claim':
    case 'own-claim':
      return action.claim.metadata.name;
    case 'placement-init':
    case 'placement-add':
    case 'placement-remove':
    case 'placement-approve':
    case 'aggregators-init':
    case 'aggregators-add':
    case 'aggregators-remove':
    case 'aggregators-delete':
    case 'upgrade-finish':
      return '';
    case 'namespace-add':
    case 'namespace-update':
    case 'namespace-ready':
    case 'namespace-delete':
      return action.name;
    default:
      return action satisfies never;
  }
}

/** Of what the action asks for: with another content it is another attempt. */
export function hashOf(action: Action): string {
  switch (action.kind) {
    case 'evict-pod':
    case 'replace-pod':
      return contentHash(action.pod.metadata.uid);
    case 'resize-pod':
      return contentHash([action.pod.metadata.uid, action.containers]);
    case 'scale-set':
      return contentHash([action.replicas, action.whenScaled]);
    case 'expand-claim':
      return action.size;
    case 'delete':
      return contentHash(action.object.metadata.uid);
    case 'own-claim':
      return contentHash([
        action.claim.metadata.uid,
        action.cluster.metadata.uid,
        action.goesWithIt,
      ]);
    default:
      return contentHash(action);
  }
}
