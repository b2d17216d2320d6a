/**
 * What an action that was done is told as: an event of the cluster for each that a person who looks
 * for the cause of something would want to see. What the operator keeps for itself (its record, owners
 * of volumes), and objects that a new cluster gets for the first time, are no news.
 */
import type { EventText } from './kube/events.ts';
import { childKey, type Observed } from './observe/observe.ts';
import { label } from './resource/keys.ts';
import type { KubeObject, Pod } from './resource/kube_objects.ts';
import type { Action } from './action/action.ts';

/** @returns null for what is no news */
export function toldAs(action: Action, observed: Observed): EventText | null {
  const text = textOf(action, observed);
  return text === null ? null : { ...text, type: 'Normal' };
}

function textOf(action: Action, observed: Observed): Omit<EventText, 'type'> | null {
  switch (action.kind) {
    case 'apply':
      return writtenAs(action.object, observed);
    case 'delete': {
      const name = childKey(action.object);
      return action.orphan
        ? { reason: 'ObjectReplaced', message: `${name} is made anew over its pods` }
        : { reason: 'ObjectDeleted', message: `${name} is not wanted any more` };
    }
    case 'scale-set': {
      const volumes = action.whenScaled === 'Delete' ? '; volumes of pods that go, go too' : '';
      const message = `StatefulSet/${action.set.metadata.name} goes to ${action.replicas} pods${volumes}`;
      return { reason: 'SetScaled', message };
    }
    case 'etcd-add':
      return { reason: 'EtcdMemberAdded', message: `${action.pod} joins etcd as a learner` };
    case 'etcd-promote':
      return { reason: 'EtcdMemberPromoted', message: `${action.pod} votes in etcd` };
    case 'etcd-remove':
      return {
        reason: 'EtcdMemberRemoved',
        message: `${action.pod} is no member of etcd any more`,
      };
    case 'etcd-move-leader':
      return { reason: 'EtcdLeaderMoved', message: `${action.pod} does not lead etcd any more` };
    case 'etcd-defragment':
      return { reason: 'EtcdDefragmented', message: `${action.pod} has given back room` };
    case 'etcd-compact':
      return {
        reason: 'EtcdCompacted',
        message: `values of etcd of before revision ${action.revision} are gone`,
      };
    case 'etcd-disarm':
      return {
        reason: 'EtcdAlarmDisarmed',
        message: `alarm ${action.alarm.kind} of etcd is taken back`,
      };
    case 'evict-pod': {
      const pods = namesOf([action.pod, ...action.together]);
      return { reason: 'PodEvicted', message: `${pods} evicted: ${action.reason}` };
    }
    case 'resize-pod':
      return { reason: 'PodResized', message: `${namesOf([action.pod])} is resized as it runs` };
    case 'replace-pod': {
      const { pod, claim } = action;
      const volume =
        claim === null ? 'its volume is kept' : `volume ${claim.metadata.name} is given up`;
      return { reason: 'PodReplaced', message: `${namesOf([pod])} is replaced: ${volume}` };
    }
    case 'expand-claim': {
      const message = `volume ${action.claim.metadata.name} is to have ${action.size}`;
      return { reason: 'VolumeExpanded', message };
    }
    case 'own-claim':
      return null;
    case 'placement-init': {
      const { numberOfShards, replicationFactor, instances } = action;
      const message = `${numberOfShards} shards of ${replicationFactor} copies over ${instances.length} nodes`;
      return { reason: 'PlacementMade', message };
    }
    case 'placement-add': {
      const ids = action.instances.map(({ id }) => id).join(', ');
      return { reason: 'NodesAdded', message: `${ids} joined the placement, for shards` };
    }
    case 'placement-remove': {
      const ids = action.instanceIds.join(', ');
      return {
        reason: 'NodesRemoved',
        message: `${ids} leave the placement and give their shards`,
      };
    }
    case 'placement-approve':
      return { reason: 'PlacementRestored', message: 'what the nodes knew stands again' };
    case 'aggregators-init':
    case 'aggregators-add': {
      const ids = action.instances.map(({ id }) => id).join(', ');
      return { reason: 'AggregatorsAdded', message: `${ids} make rollups` };
    }
    case 'aggregators-remove': {
      const ids = action.instanceIds.join(', ');
      return { reason: 'AggregatorsRemoved', message: `${ids} make no rollups any more` };
    }
    case 'aggregators-delete':
      return { reason: 'AggregatorsRemoved', message: 'coordinators make rollups again' };
    case 'upgrade-finish':
      return { reason: 'UpgradeFinished', message: 'the newest formats are written from now on' };
    case 'namespace-add':
      return { reason: 'NamespaceAdded', message: `namespace ${action.name} is added` };
    case 'namespace-update':
      return { reason: 'NamespaceUpdated', message: `namespace ${action.name} is changed` };
    case 'namespace-ready':
      return { reason: 'NamespaceReady', message: `namespace ${action.name} takes writes` };
    case 'namespace-delete':
      return { reason: 'NamespaceDeleted', message: `namespace ${action.name} is deleted` };
    default:
      return action satisfies never;
  }
}

function writtenAs(
  object: KubeObject,
  { cluster, children }: Observed,
): Omit<EventText, 'type'> | null {
  const name = childKey(object);
  const { status, metadata } = cluster;
  if (object.metadata.labels?.[label.component] === 'record') return null;
  if (children.has(name)) {
    return { reason: 'ObjectUpdated', message: `${name} is written as it is to be` };
  }
  if (status?.observedGeneration === undefined) return null;
  // Jobs are made once each, and go by themselves.
  const isLasting = object.kind !== 'Job';
  return isLasting && status.rolledGeneration === metadata.generation
    ? { reason: 'ObjectRestored', message: `${name} was gone, and is made again` }
    : { reason: 'ObjectMade', message: `${name} is made` };
}

const namesOf = (pods: readonly Pod[]): string =>
  pods.map(({ metadata }) => metadata.name).join(', ');
