/**
 * What is known of a cluster that its resource does not say and that outlives it: which placement its
 * volumes belong to, and who asked for which namespace. It stands in a ConfigMap that nobody owns, so
 * that a cluster that was deleted with `data: Retain` comes back with its data.
 */
import type { KubeObject } from '../resource/kube_objects.ts';
import type { Component } from '../resource/names.ts';
import type { ClusterSpec } from '../resource/tsdb_cluster.ts';

/** Who asked for a namespace first, and so decides over it. */
export interface NamespaceOwner {
  /** Name of the TSDBNamespace; null for the list of the TSDBCluster. */
  readonly claim: string | null;
  /** Delete: the namespace goes with its TSDBNamespace. */
  readonly reclaimPolicy: 'Retain' | 'Delete';
}

export interface ClusterRecord {
  /** Of the TSDBCluster that saw the placement last. */
  readonly clusterUid: string;
  /** Null before there was one. */
  readonly placement: RecordedPlacement | null;
  readonly namespaces: Readonly<Record<string, NamespaceOwner>>;
  /** Of its own etcd, by the names of their pods. */
  readonly etcdMembers: Readonly<Record<string, RecordedMember>>;
  /** Levels of formats; not there in records of an operator before, and while nobody has said any. */
  readonly formats?: {
    /** The highest one that a node wrote. */
    readonly written: number;
    /** The highest one that nodes of these images read. */
    readonly images: Readonly<Record<string, number>>;
  };
  /**
   * What the pods of each component were last allowed to be made from (desired/former.ts); components
   * that are made from the same stand together.
   */
  readonly inputs?: readonly RecordedInputs[];
}

/** A ConfigMap takes 1 MiB, and what must be in the record comes first. */
export const inputsCharactersMax: number = 256 * 1024;

export interface RecordedInputs {
  /** With the hash of what that made of their pods. */
  readonly components: Readonly<Partial<Record<Component, string>>>;
  /** Without what no pod is made of. */
  readonly spec: ClusterSpec;
  /** Those of the operator, for where the resource names none. */
  readonly images: Readonly<Record<Component | 'operator', string>>;
}

export interface RecordedPlacement {
  readonly numberOfShards: number;
  readonly replicationFactor: number;
  readonly version: number;
  readonly instanceIds: readonly string[];
}

/** A member of etcd and the volume that it has its data on. */
export interface RecordedMember {
  readonly memberId: string;
  readonly claimUid: string;
  /** Of the volume that its pod has instead, when it may have begun to write to that. */
  readonly laterClaimUid?: string;
  /** It was seen to answer with what is on the later one. */
  readonly laterAnswers?: true;
  /**
   * Nobody starts with its data: etcd has it no more (then it is forgotten when its volume is gone), or
   * it joins and could not start with what was on that volume.
   */
  readonly isRemoved?: true;
}

export const dataKey = 'record.json';

const isRecord = (value: unknown): boolean => typeof value === 'object' && value !== null;

/** As far as nothing else looks at it: the schema of the resource has let it pass once. */
const isInputs = ({ components, spec, images }: RecordedInputs): boolean =>
  isRecord(components) &&
  isRecord(images) &&
  isRecord(spec) &&
  isRecord(spec.nodes) &&
  Array.isArray(spec.isolationGroups);

/** @returns null when there is none; a text that says what is wrong with it */
export function recordOf(live: KubeObject | undefined): ClusterRecord | string | null {
  if (live === undefined) return null;
  const where = `ConfigMap ${live.metadata.name}`;
  const text = (live['data'] as Record<string, string> | undefined)?.[dataKey];
  if (text === undefined) return `${where} has no ${dataKey}`;
  try {
    const record = JSON.parse(text) as ClusterRecord;
    const isWhole =
      typeof record.clusterUid === 'string' &&
      isRecord(record.namespaces) &&
      isRecord(record.etcdMembers) &&
      (record.inputs ?? []).every(isInputs) &&
      (record.placement === null ||
        (Number.isInteger(record.placement.numberOfShards) &&
          Number.isInteger(record.placement.replicationFactor) &&
          Number.isInteger(record.placement.version) &&
          Array.isArray(record.placement.instanceIds)));
    return isWhole ? record : `${where}: ${dataKey} lacks fields`;
  } catch {
    return `${where}: ${dataKey} is no JSON`;
  }
}
