/** What the session is given and gives back. */
import type { Tracing } from '#lib/tracing/tracing.ts';
import type { TimeUnitNanos } from '#engine/batch/batch.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import type { Env } from '#lib/env/env.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import type { FormatLevels } from '#lib/format_level.ts';
import type { Log } from '#lib/log.ts';
import type { ReadBytes } from '#lib/read_memory/read_memory.ts';
import type { ReadConsistency, WriteConsistency } from './consistency.ts';
import type { RegistryVersion } from '../namespaces/samples.ts';
import type { AggregateResponse, NodeService, TimeRange } from '../node/service.ts';
import type { Instance } from '../placement/placement.ts';
import type { TopologySource } from '../topology/topology.ts';

/** The node in this process, which loads its data while it is asked already. */
export interface OwnNode {
  readonly isLoaded: boolean;
  /** Resolves when it is. */
  readonly whenLoaded: Promise<void>;
}

export interface SessionOptions {
  readonly topology: TopologySource;
  /** The service of an instance; asked for each request, so it keeps its connections. */
  readonly nodeOf: (instance: Instance) => NodeService;
  /** A read that failed while it was loading is tried again as soon as it is loaded. */
  readonly ownNode?: OwnNode;
  readonly env: Env;
  readonly log: Log;
  /** What the cluster has finished, where the process follows it; else nodes' answers tell. */
  readonly formats?: FormatLevels;
  /** Asked at each read and write that names none. Default: majority, and unstrict_majority for reads. */
  readonly levels?: {
    readonly writeConsistency: WriteConsistency;
    readonly readConsistency: ReadConsistency;
  };
  /** Spans of reads and writes. Default: none. */
  readonly tracing?: Tracing | null;
  /** Default 10 s, retries included. */
  readonly writeTimeoutMillis?: number;
  /** Default 15 s, retries included. */
  readonly fetchTimeoutMillis?: number;
  /** Rows on their way to one instance; more fail there at once. Default 2 million. */
  readonly rowsPerInstanceMax?: number;
  /** As in `ReferenceTables`. Default 512 MiB. */
  readonly referenceBytesMax?: number;
}

/** Rows to write. Columns need to hold until the first await only. */
interface RowsToWrite {
  readonly rowCount: number;
  /** Slot in the series table, by row. */
  readonly slots: Uint32Array;
  /** Generation of the slot, by row. */
  readonly generations: Uint32Array;
  /** False when no row is of a refused series: then nobody looks. */
  readonly mayBeRefused: boolean;
  readonly timestamps: BigInt64Array;
  readonly timeUnitNanos: TimeUnitNanos;
  /** Unix nanoseconds, 0 for none; not set when no row has one. */
  readonly startNanos?: BigInt64Array | null;
}

/** Floats; `WriteDecoderRows` of engine/write_decoder/write_decoder.ts are such. */
export interface SessionRows extends RowsToWrite {
  readonly values: Float64Array;
}

/** Canonical typed values (docs/TYPED_ROWS.md), one after the other, and where each ends. */
export interface SessionTypedRows extends RowsToWrite {
  readonly valueEnds: Uint32Array;
  readonly valueBytes: Uint8Array;
}

/**
 * What is known of the series, by slot; `WriteDecoder` of engine/write_decoder/write_decoder.ts is
 * one.
 */
export interface SeriesTable {
  /** murmur3_32 of the ID. */
  readonly idHash: Uint32Array;
  /** Its slots mean nothing to another write: no references are kept for them. */
  readonly isOfOneWrite?: true;
  /** Changes when the slot is given to another series; never 0 for a slot in use. */
  readonly generation: Uint32Array;
  /** Not 0 when rows of the series are refused; `problem` says why. */
  readonly refused: Uint8Array;
  problem(slot: number): string;
  tags(slot: number): Uint8Array;
  /** The same without a copy: a view until the next call of the table. */
  borrowTags?(slot: number): Uint8Array;
  idScheme(slot: number): number;
  explicitId(slot: number): Uint8Array;
  /**
   * Tags and IDs of many slots at once. Only of a table that has checked them: sorted, each name
   * once and well-formed, the ID derived from them; null when it cannot say so of all.
   */
  checkedEntries?(slots: Uint32Array): CheckedEntries | null;
}

/** Series as dictionary entries, in the order in which they were asked for. */
export interface CheckedEntries {
  /** Canonical tags, one after the other. */
  readonly tags: Uint8Array;
  /** End of each one's tags. */
  readonly ends: Uint32Array;
  readonly idSchemes: Uint8Array;
  /** murmur3_32 of the ID. */
  readonly idHashes: Uint32Array;
}

export interface WriteOptions {
  readonly consistency?: WriteConsistency;
  /** By which the writer has chosen all namespaces that take its rows; not set when it names one. */
  readonly registry?: RegistryVersion;
}

export interface FetchOptions extends TimeRange {
  readonly namespace: string;
  readonly query: IndexQuery;
  /** 0 = no limit. */
  readonly seriesLimit: number;
  /** Of tags, IDs and chunks together; 0 = 1 GiB. More is RESOURCE_EXHAUSTED. */
  readonly bytesLimit?: number;
  /** Refuse with BAD_REQUEST instead of cutting the answer at the series limit. */
  readonly requireExhaustive: boolean;
  /** False: tags and IDs only. */
  readonly fetchData: boolean;
  /** Of so many, those whose series are read; all when it is not set. */
  readonly shardsOf?: (numShards: number) => Uint32Array;
  readonly consistency?: ReadConsistency;
  /** Of which the answers are, and then the outcome; without limit when it is not given. */
  readonly memory?: ReadBytes;
}

export interface FetchByIdOptions extends TimeRange {
  readonly namespace: string;
  readonly ids: readonly Uint8Array[];
  readonly consistency?: ReadConsistency;
  /** As of `FetchOptions`. */
  readonly memory?: ReadBytes;
}

export interface FetchResult {
  /** Each series once, its chunks from all replicas that answered. */
  readonly bundle: SeriesBundle;
  /** Nothing was cut off by a limit. */
  readonly exhaustive: boolean;
  /** Why the answer may be less than whole: replicas that did not answer. */
  readonly warnings: readonly string[];
  /** Instances that answered. */
  readonly responses: number;
}

export interface AggregateOptions extends TimeRange {
  readonly namespace: string;
  readonly query: IndexQuery;
  /** Only these tag names; empty for all. */
  readonly tagNames: readonly string[];
  readonly namesOnly: boolean;
  /** As of `AggregateRequest`. */
  readonly joined?: boolean;
  /** Values and names together; 0 = no limit. */
  readonly limit: number;
  readonly requireExhaustive: boolean;
  readonly consistency?: ReadConsistency;
  /** As of `FetchOptions`. */
  readonly memory?: ReadBytes;
}

export interface AggregateResult {
  /** Sorted by name; values sorted, empty with namesOnly. */
  readonly tags: AggregateResponse['tags'];
  readonly exhaustive: boolean;
  readonly warnings: readonly string[];
  /** Instances that answered. */
  readonly responses: number;
}
