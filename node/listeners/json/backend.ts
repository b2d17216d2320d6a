/**
 * What the JSON methods ask for: this node alone (9002), or the cluster through a session (9003).
 */
import type { ReadConsistency } from '#cluster/session/consistency.ts';
import type { Schemas } from '#cluster/namespaces/schemas.ts';
import type { NodeHealth, TimeRange } from '#cluster/node/service.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import type { Delivery } from '#lib/read_memory/delivery.ts';
import type { UnixNanos } from '#lib/time.ts';

export interface JsonRow {
  /** Canonical. */
  readonly tags: Uint8Array;
  readonly id: Uint8Array;
  readonly nanos: UnixNanos;
  /** A float, or a typed value. */
  readonly value: number | Uint8Array;
}

/** The time of a row alone. */
export function atRow({ nanos }: JsonRow): TimeRange {
  return { startNanos: nanos, endNanos: nanos + 1n };
}

export interface JsonQuery extends TimeRange {
  readonly namespace: string;
  readonly query: IndexQuery;
  /** 0 = no limit. */
  readonly seriesLimit: number;
  readonly requireExhaustive: boolean;
  readonly fetchData: boolean;
  readonly consistency: ReadConsistency | null;
}

export interface JsonAggregate extends TimeRange {
  readonly namespace: string;
  readonly query: IndexQuery;
  readonly tagNames: readonly string[];
  readonly namesOnly: boolean;
  readonly limit: number;
  readonly requireExhaustive: boolean;
}

export interface JsonSeries {
  readonly bundle: SeriesBundle;
  readonly exhaustive: boolean;
}

export interface JsonTags {
  readonly tags: readonly { readonly name: string; readonly values: readonly string[] }[];
  readonly exhaustive: boolean;
}

/** What a flush on demand did. */
export interface JsonFlushed {
  /** Blocks of shards whose rows are in filesets now. */
  readonly blocks: number;
  /** Filesets that were written for them, with their series and bytes. */
  readonly filesets: number;
  readonly series: number;
  readonly bytes: number;
  /** Blocks of shards that are bootstrapping, which stay in memory. */
  readonly blocksLeft: number;
  /** Series that stayed in memory, in the snapshot that took the place of the commit log. */
  readonly snapshotSeries: number;
  readonly snapshotBytes: number;
  readonly segmentsDeleted: number;
}

export interface JsonFetched {
  readonly bundle: SeriesBundle;
  /** Why the answer may be less than whole. */
  readonly warnings: readonly string[];
}

export interface BootstrapState {
  /** This instance has shards, or does not know yet. */
  readonly mayOwnShards: boolean;
  /** All of them are whole. */
  readonly bootstrapped: boolean;
  /** Those are that the placement counts on here. */
  readonly serves: boolean;
}

/** Limits of a node that hold until it ends, or they are set in the key-value store. */
export interface NodeLimits {
  /** 0 for no limit. */
  readonly newSeriesPerShardPerSecondMax: number;
  limitNewSeries(perShardPerSecondMax: number): void;
}

/** `nameSpace` of the calls that have it as bytes: base64, or the plain name of one that exists. */
export function namespaceOf(backend: JsonBackend, text: string): string {
  if (backend.hasNamespace(text)) return text;
  const decoded = Buffer.from(text, 'base64');
  return decoded.toString('base64') === text ? decoded.toString() : text;
}

export interface JsonBackend {
  /** Null for the cluster. */
  readonly limits: NodeLimits | null;
  /** @throws {TsdbError} when the row was not written, naming why */
  write(namespace: string, row: JsonRow, signal: AbortSignal): Promise<void>;
  fetchById(
    namespace: string,
    id: Uint8Array,
    range: TimeRange,
    signal: AbortSignal,
    delivery: Delivery,
  ): Promise<JsonFetched>;
  query(query: JsonQuery, signal: AbortSignal, delivery: Delivery): Promise<JsonSeries>;
  aggregate(query: JsonAggregate, signal: AbortSignal, delivery: Delivery): Promise<JsonTags>;
  truncate(namespace: string, signal: AbortSignal): Promise<number>;
  /**
   * Of the node: writes memory to filesets and deletes the commit log that held it; null for all.
   */
  flush(namespaces: readonly string[] | null, signal: AbortSignal): Promise<JsonFlushed>;
  /**
   * Of the node: begins to compare its blocks with those of the other replicas.
   * @throws {TsdbError} BAD_REQUEST when that is not enabled
   */
  repair(): void;
  /** Of the namespace's values; null when they are floats, or there is no such namespace. */
  schemas(namespace: string): Schemas | null;
  /** Reads the namespaces anew, for who meets a schema that is not known. */
  renewSchemas(signal: AbortSignal): Promise<void>;
  /** Whether there is a namespace of exactly this name. */
  hasNamespace(name: string): boolean;
  /** Of the node; null for the cluster. */
  health(signal: AbortSignal): Promise<NodeHealth | null>;
  /** Null for the cluster. */
  bootstrapState(): BootstrapState | null;
}
