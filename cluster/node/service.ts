/**
 * What a storage node does for others: the one contract behind the gRPC servers on 9000 and 9001
 * (node/), the gRPC client (cluster/node/client.ts) and the in-process transport of the combined
 * binary. The `.proto` of lib/proto/node.proto carries the same messages.
 */
import type { TypedBatchView } from '#engine/batch/batch.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import type { Delivery } from '#lib/read_memory/delivery.ts';
import type { UnixNanos } from '#lib/time.ts';

/** Outcome of one row of a write. */
export const rowOutcome = {
  written: 0,
  /**
   * The reference is of another boot or was given to another series since: send the dictionary
   * entry.
   */
  unknownReference: 1,
  /** Before now - bufferPast, and the namespace takes no cold writes. */
  tooFarPast: 2,
  /** At or after now + bufferFuture. */
  tooFarFuture: 3,
  /** The series' shard is not owned by this node in its placement. */
  shardNotOwned: 4,
  /**
   * This node adopted a newer placement in which the shard moves, knows that the namespace was
   * deleted and made again, or one more that rows have to go to: refresh and send again.
   */
  stalePlacement: 5,
  /** New-series or memory limit; retry later. */
  resourceExhausted: 6,
  /** Dictionary entry malformed: tags, ID or sizes. */
  badSeries: 7,
  /**
   * Another value stands at that time, or may, and the version that was derived for the row does not
   * replace it: send it in a batch that derives none.
   */
  superseded: 8,
  /**
   * The ID is that of a series with other tags: an explicit one that a scheme makes from other tags,
   * or one that another series has.
   */
  otherTags: 9,
  /** A typed value that is not canonical (docs/TYPED_ROWS.md), or no message of its schema. */
  badValue: 10,
  /**
   * What the value is is no schema of the namespace, or none that this node knows (`schemas.ts` of
   * cluster/namespaces): look it up, and send the row again.
   */
  otherSchema: 11,
} as const;

/** Of which namespace a message is. */
export interface OfNamespace {
  readonly namespace: string;
  /**
   * The number of it that the sender knows (`cluster/namespaces/numbers.ts`): another one of the
   * same name is not meant. Not set, or 0: whichever there is.
   */
  readonly namespaceNumber?: number;
}

export interface WriteRequest extends OfNamespace {
  readonly placementVersion: number;
  /**
   * Revision of the namespaces of which the writer writes the row to all that take samples. Not set, or 0, for who names
   * one.
   */
  readonly namespacesRevision?: number;
  /** Of the store that this revision is of. */
  readonly namespacesLineageId?: string;
  /** As of `OfReader`, of the writer. */
  readonly formatLevel?: number;
  /**
   * `referenceEpoch` of the node's answer that gave the references; '' when the batch holds none.
   */
  readonly referenceEpoch: string;
  /** docs/formats/batch.md. Owned by the callee until the promise settles. */
  readonly batch: Uint8Array;
}

/**
 * A write whose columns stay in this process: what `readTypedBatch` makes of the batch, without the
 * bytes.
 */
export interface ColumnsWriteRequest extends Omit<WriteRequest, 'batch'> {
  /**
   * Borrowed until the promise settles; slots and generations are the callee's to overwrite until
   * then.
   */
  readonly batch: TypedBatchView;
}

export interface WriteResponse {
  /** Names the start of the node for which its references are valid. */
  readonly referenceEpoch: string;
  /** One `rowOutcome` a row in the order of the batch, floats before typed rows, or empty when all were written. */
  readonly outcomes: Uint8Array;
  /** For each dictionary entry of the batch: slot, generation (0, 0 when refused). */
  readonly references: Uint32Array;
  /**
   * The highest version that the node has accepted, by whomever, as far as the time bears it out;
   * writers go on above it. 0 of a node that does not say.
   */
  readonly highestVersion: number;
  /** The highest version of a deletion that the node knows. Not set, or 0: none. */
  readonly deletionVersion?: number;
  /** The level of formats that the node writes (lib/format_level.ts). Not set: that of release 0.1.0. */
  readonly formatLevelWritten?: number;
}

export interface TimeRange {
  /** Inclusive. */
  readonly startNanos: UnixNanos;
  /** Exclusive. */
  readonly endNanos: UnixNanos;
}

/** Who reads chunks. */
export interface OfReader {
  /**
   * The highest level of formats that it reads (lib/format_level.ts). Not set: all that the node
   * does, as in the same process.
   */
  readonly formatLevel?: number;
}

export interface FetchRequest extends OfNamespace, OfReader, TimeRange {
  readonly placementVersion: number;
  readonly query: IndexQuery;
  /** Only series of these shards; null for all that the node has. */
  readonly shards: Uint32Array | null;
  /** 0 = no limit. */
  readonly seriesLimit: number;
  /** False: tags and IDs only. */
  readonly fetchData: boolean;
}

export interface FetchResponse {
  readonly bundle: SeriesBundle;
  /** No limit cut the answer short. */
  readonly exhaustive: boolean;
  /** Shards for which this answer is whole: owned, bootstrapped, not INITIALIZING. */
  readonly shards: Uint32Array;
}

export interface FetchByIdRequest extends OfNamespace, OfReader, TimeRange {
  readonly placementVersion: number;
  readonly ids: readonly Uint8Array[];
}

export interface AggregateRequest extends OfNamespace, TimeRange {
  readonly placementVersion: number;
  readonly query: IndexQuery;
  /** Only these tag names; empty for all. */
  readonly tagNames: readonly string[];
  readonly namesOnly: boolean;
  /**
   * In their place one tag, whose name is all of `tagNames` and whose values are those of a series, with dots between them: `a.b`.
   * Series that lack one of the names have none, as have those with a value that is empty or has a dot.
   */
  readonly joined?: boolean;
  /** Values and names together; 0 = no limit. */
  readonly limit: number;
}

export interface AggregateResponse {
  /** Sorted by name; values sorted, empty with namesOnly. */
  readonly tags: readonly { readonly name: string; readonly values: readonly string[] }[];
  readonly exhaustive: boolean;
  readonly shards: Uint32Array;
}

export interface StatisticsRequest extends OfNamespace {
  readonly placementVersion: number;
  /** Only series of these shards, sorted; null for all that the node has. */
  readonly shards: Uint32Array | null;
  /** Most rows of each list. */
  readonly limit: number;
  /** The tag that holds the metric name. */
  readonly metricName: string;
  /** Give sketches, with which answers of several nodes are joined. */
  readonly withSketches: boolean;
}

/** A tag name, a metric, or a pair of name and value, with a number. */
export interface StatisticsCount {
  readonly name: string;
  /** Of a pair, else ''. */
  readonly value: string;
  readonly count: number;
  /** Of the name's values (lib/hashing/distinct_sketch.ts), in `valuesByName` when asked for. */
  readonly sketch: Uint32Array;
}

/** Cardinality of an index; every list is descending. */
export interface StatisticsResponse {
  readonly seriesCount: number;
  /** Distinct tag names, and distinct pairs of name and value. */
  readonly nameCount: number;
  readonly pairCount: number;
  readonly valuesByName: readonly StatisticsCount[];
  readonly seriesByName: readonly StatisticsCount[];
  readonly seriesByPair: readonly StatisticsCount[];
  readonly seriesByMetric: readonly StatisticsCount[];
  /** Bytes of the node's index, of all its shards. */
  readonly bytesByName: readonly StatisticsCount[];
  readonly nameSketch: Uint32Array;
  readonly pairSketch: Uint32Array;
  /** Pairs of a series and a block that have rows in memory. */
  readonly openBlocks: number;
  /** From the oldest of these blocks to the end of the newest; both 0 when there is none. */
  readonly startNanos: UnixNanos;
  readonly endNanos: UnixNanos;
  /** Series that came and went, since the node's start and in the last hour. */
  readonly created: number;
  readonly removed: number;
  readonly createdLastHour: number;
  readonly removedLastHour: number;
  /** Shards for which the answer is whole. */
  readonly shards: Uint32Array;
}

/** One page of a shard's sealed blocks, for a peer that bootstraps. */
export interface StreamShardRequest extends OfNamespace {
  readonly shard: number;
  /** The asker's placement version: the donor adopts it before it streams. */
  readonly placementVersion: number;
  /** The donor has applied the deletions up to this one before it streams. */
  readonly deletionSequence?: number;
  /** As in `ComparedShard`. */
  readonly deletionVersions?: readonly number[];
  /** Starts of the only blocks that are asked for; all that there are when it is empty. */
  readonly blockStartsNanos: readonly bigint[];
  /**
   * What the node has of blocks of which rows are damaged, or of a shard that it has not taken over
   * yet, is wanted too.
   */
  readonly damagedToo: boolean;
  /** Only these are wanted. Not set: all. A node of a former version takes no notice of it. */
  readonly next?: NextBlocks;
}

/** Which blocks of a shard come next, the oldest first. */
export interface NextBlocks {
  /** Those that start here or later. */
  readonly fromNanos: UnixNanos;
  /** Starts of blocks that the asker has already, at most `heldBlocksMax`. */
  readonly heldStartsNanos: readonly bigint[];
  /** Blocks of which there are rows, after which the stream ends; 0 = no limit. */
  readonly blocksMax: number;
}

/** Blocks that an asker may say that it has. */
export const heldBlocksMax = 65_536;

export interface StreamShardPage {
  /** Chunk bytes as stored, not decoded and encoded again. */
  readonly bundle: SeriesBundle;
}

/** What a comparison of replicas has to be equal in (docs/REPAIR.md). */
export interface ComparedShard extends OfNamespace {
  readonly shard: number;
  /** The asker's placement version: the other one adopts it first. */
  readonly placementVersion: number;
  /** The asker has applied the deletions up to this one, and no later one. */
  readonly deletionSequence: number;
  /**
   * Of those in this namespace (`Deletions.versionsOf`); the other one has applied all of them. The
   * sequence says nothing of one that a restored store has lost, and that is published again.
   */
  readonly deletionVersions?: readonly number[];
  readonly retentionNanos: bigint;
}

export interface CompareRowsRequest extends ComparedShard {
  /** At most `comparedBlocksMax`. */
  readonly blockStartsNanos: readonly bigint[];
  /** Of one block: sums of 2^rangeBits ranges of series at most are wanted too. Null: of none. */
  readonly rangeBits: number | null;
}

/** Why a block is not compared now, or that it is. */
export const compareState = {
  compared: 0,
  /** Other deletions of series are applied here, or one is being applied. */
  deletionsDiffer: 1,
  /** The namespace has another retention here. */
  retentionDiffers: 2,
  /** The shard is not AVAILABLE and whole here, or rows of the block are damaged or in doubt. */
  notWhole: 3,
  expired: 4,
  /** Its sums are being made, or its files changed meanwhile. */
  notReady: 5,
} as const;

/** Blocks of one comparison. */
export const comparedBlocksMax = 128;

export interface CompareRowsResponse {
  /** A `compareState` for each block of the request. */
  readonly states: Uint8Array;
  /** Two sums for each block; 0 of those that are not compared. */
  readonly roots: BigUint64Array;
  /** Of `ranges`, when they were asked for. */
  readonly rangeBits: number;
  /** The low sum of each of 2^rangeBits ranges, or none. */
  readonly ranges: BigUint64Array;
}

/** Series of some ranges, but for those that the asker has just so. */
export interface StreamDifferentRequest extends ComparedShard {
  readonly blockStartNanos: bigint;
  readonly rangeBits: number;
  /** Ascending, at most `differentRangesMax`. */
  readonly ranges: Uint32Array;
  /**
   * `markOf` the series that the asker has in these ranges, ascending: two bytes each, where sums
   * would take eight.
   */
  readonly known: Uint32Array;
  /**
   * Odd, below 2^64, another one each time: what differs and has an equal mark by chance is found
   * the next time.
   */
  readonly salt: bigint;
  /** Names are wanted, and no rows. */
  readonly namesOnly: boolean;
}

/**
 * What tells the low sum of a series from others, in 30 bits: of the quarter of a million that one
 * request names one in 4000 is taken for another one, and the steps between them have two bytes.
 * @param salt odd
 */
export function markOf(low: bigint, salt: bigint): number {
  return Number(BigInt.asUintN(64, low * salt) >> 34n);
}

/** Ranges of one stream: of a quarter of a million series. */
export const differentRangesMax = 4096;

/** A node's data folder, as it says it to those who own shards with it (node/identity/witness.ts). */
export interface Introduction {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly bootCount: number;
  /** Of what was written to the folder so far, and the one before it; '' for none. */
  readonly mark: string;
  readonly markBefore: string;
  readonly placementVersion: number;
  /** Of the key-value store that the placement is of (kv/lineage.ts). */
  readonly lineageId: string;
  /** It cannot compare its folder with the key-value store, and asks who knows it. */
  readonly asks: boolean;
  /** It has applied the deletions up to this one. */
  readonly deletionSequence: number;
}

export interface NodeHealth {
  readonly ok: boolean;
  readonly status: string;
  readonly bootstrapped: boolean;
  /** Why writes are refused, as with a full disk; '' when they are taken. */
  readonly writesRefused: string;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly bootCount: number;
  readonly placementVersion: number;
  /** Of the namespaces that the node has adopted, by which it refuses writers; not set, or 0, of a node that does not say. */
  readonly namespacesRevision?: number;
  /** Of the key-value store that they are of. */
  readonly lineageId?: string;
  /** What the wall clock of the node shows; 0 of a node that does not say. */
  readonly unixNanos: UnixNanos;
  /**
   * It answers no more for a shard that another one is read for, and leaves it later
   * (placement/handover.ts); a node of a former version does not.
   */
  readonly retires: boolean;
  /** Levels of formats (lib/format_level.ts): the highest that the node reads. */
  readonly formatLevel: number;
  /** The one that it writes: that of the cluster when the upgrade to it is finished. */
  readonly formatLevelWritten: number;
  /** The lowest one of those who have read from it or written to it lately; `formatLevel` when none reads less. */
  readonly formatLevelOfReaders: number;
  /**
   * Blocks of shards of which acknowledged rows may be missing here since something was damaged,
   * until others gave what they have.
   */
  readonly blocksLacking: number;
  /** The shards that they are of, ascending. */
  readonly shardsLacking: readonly number[];
  /** Blocks that were filled, since the process started, from fewer replicas than have all rows of them: some may be lost. */
  readonly blocksLost: number;
  /** The folder of the node that asked is the one that introduced itself last. */
  readonly vouches?: boolean;
}

/**
 * Every method rejects with TsdbError; UNAVAILABLE, RESOURCE_EXHAUSTED and DEADLINE_EXCEEDED may be
 * retried.
 */
export interface NodeService {
  /** @throws {TsdbError} FAILED_PRECONDITION when the clock of the writer is ahead */
  write(request: WriteRequest, signal: AbortSignal): Promise<WriteResponse>;
  /** The same write for a session of the same process; only a node that is in it has this. */
  writeColumns?(request: ColumnsWriteRequest, signal: AbortSignal): Promise<WriteResponse>;
  fetch(request: FetchRequest, signal: AbortSignal, delivery?: Delivery): Promise<FetchResponse>;
  fetchById(
    request: FetchByIdRequest,
    signal: AbortSignal,
    delivery?: Delivery,
  ): Promise<FetchResponse>;
  aggregate(
    request: AggregateRequest,
    signal: AbortSignal,
    delivery?: Delivery,
  ): Promise<AggregateResponse>;
  /** Cardinality of the index; a node of a former version has no such method. */
  statistics?(request: StatisticsRequest, signal: AbortSignal): Promise<StatisticsResponse>;
  /**
   * Deletes all series of a namespace, here and on all other nodes; resolves to the number of those
   * that this node had.
   * @throws {TsdbError} UNAVAILABLE also when some nodes have not confirmed it yet
   */
  truncate(namespace: string, signal: AbortSignal): Promise<number>;
  /**
   * @throws {TsdbError} CONFLICT when blocks that are asked for are damaged here, and `damagedToo`
   * is not set
   */
  streamShard(request: StreamShardRequest, signal: AbortSignal): AsyncIterable<StreamShardPage>;
  /**
   * What the rows of blocks add up to here. A node of a former version has neither this nor the
   * next one, and rejects with UNIMPLEMENTED.
   */
  compareRows?(request: CompareRowsRequest, signal: AbortSignal): Promise<CompareRowsResponse>;
  /** Series of a block that differ from the asker's, sorted by ID. Pages may be empty. */
  streamDifferent?(
    request: StreamDifferentRequest,
    signal: AbortSignal,
  ): AsyncIterable<StreamShardPage>;
  /** @param of the node that asks, when it is one */
  health(signal: AbortSignal, of?: Introduction | null): Promise<NodeHealth>;
}
