/**
 * One batch on its way through the sequencer: its dictionary is resolved and its rows are checked
 * in the order of the log, the rows that are taken are logged as one batch, and applied.
 */
import { namespaceNumber } from '#cluster/namespaces/numbers.ts';
import type { ColumnsWriteRequest, WriteRequest, WriteResponse } from '#cluster/node/service.ts';
import { rowOutcome } from '#cluster/node/service.ts';
import { type BatchView, readBatch } from '#engine/batch/batch.ts';
import type { BatchEncoder } from '#engine/batch/encoder.ts';
import type { SampleStore } from '#engine/store/sample_store.ts';
import type { StoreRows } from '#engine/store/store.ts';
import { assert } from '#lib/assert.ts';
import { sideOfWindow } from '#lib/block_time.ts';
import { TsdbError } from '#lib/errors.ts';
import type { FormatLevels } from '#lib/format_level.ts';
import { derivedVersion, liveLagMax, versionAtMillis } from '#lib/hybrid_clock.ts';
import type { VersionBound } from '../../clock/version_bound.ts';
import type { UnixNanos } from '#lib/time.ts';
import type { SeriesName } from '#lib/series_id/series_name.ts';
import type { Commitlog } from '../../persist/commitlog/commitlog.ts';
import type { SegmentBuffer } from '../../persist/commitlog/format.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { SequencedWrite } from './sequencer.ts';
import type { ShardTable } from '../namespace/shards.ts';

/** What all writes of a node share. */
export interface WriteContext {
  readonly store: SampleStore;
  readonly shards: ShardTable;
  readonly commitlog: Commitlog;
  /** What the window of times that are taken goes by. */
  readonly time: { nowNanos(): UnixNanos };
  readonly versions: VersionBound;
  readonly formats: FormatLevels;
  readonly referenceEpoch: string;
  /** Reused from batch to batch: the sequencer prepares one at a time. */
  readonly encoder: BatchEncoder;
  readonly scratch: WriteScratch;
}

/**
 * Outcomes of the batch that is prepared or applied; fresh ones for each batch would cost more than
 * its checks.
 */
export class WriteScratch {
  #outcomes = new Uint8Array(4096);

  /** Zeros for so many rows, until the next call. */
  zeros(rowCount: number): Uint8Array {
    if (rowCount > this.#outcomes.length) this.#outcomes = new Uint8Array(2 * rowCount);
    return this.#outcomes.subarray(0, rowCount).fill(0);
  }
}

/** Oldest and newest row of a batch, in its time unit. */
interface TimeSpan {
  readonly first: bigint;
  readonly last: bigint;
}

const emptySpan: TimeSpan = { first: 0n, last: -1n };
const noOutcomes = new Uint8Array(0);
const noSlots = new Uint32Array(0);

export class PendingWrite implements SequencedWrite<WriteResponse> {
  readonly bytes: number;
  readonly #context: WriteContext;
  readonly #namespace: NamespaceState;
  readonly #request: WriteRequest | ColumnsWriteRequest;
  readonly #batch: BatchView;
  #rows: StoreRows;
  /** Of the batch's rows, while they are prepared; then kept only when one is refused. */
  #outcomes: Uint8Array = noOutcomes;
  #references: Uint32Array;
  #isLogged = false;
  /** The batch of the log, where that may ask for it after this is answered. */
  #logged: Uint8Array | null = null;
  /** Slots of the logged rows. */
  #loggedSlots: Uint32Array = noSlots;
  #nowNanos = 0n;
  /** Dictionary entries whose series this batch has made. */
  readonly #madeEntries: number[] = [];
  /** Their names, until they are recorded. */
  #madeNames: SeriesName[] = [];
  #isRecorded = false;
  #supersededCount = 0;
  #span: TimeSpan = emptySpan;

  /** @throws {TsdbError} BAD_REQUEST when the batch is malformed */
  constructor(
    context: WriteContext,
    namespace: NamespaceState,
    request: WriteRequest | ColumnsWriteRequest,
  ) {
    this.#context = context;
    this.#namespace = namespace;
    this.#request = request;
    const { batch } = request;
    this.#batch = batch instanceof Uint8Array ? readBatch(batch) : batch;
    this.bytes = batch instanceof Uint8Array ? batch.length : bytesOf(batch);
    this.#rows = this.#batch;
    this.#references = new Uint32Array(2 * this.#batch.seriesCount);
  }

  get rowCount(): number {
    return this.#batch.rowCount;
  }

  get version(): number {
    return this.#batch.version;
  }

  get derivesVersions(): boolean {
    return this.#batch.derivesVersions;
  }

  /** Rows that were taken, once `prepare` and, of those that were superseded, `apply` has run. */
  get writtenCount(): number {
    return this.#rows.rowCount - this.#supersededCount;
  }

  /** The answer when all rows are refused for one reason, and nothing else is done. */
  refused(outcome: number): WriteResponse {
    return this.#response(new Uint8Array(this.rowCount).fill(outcome));
  }

  prepare(): void {
    const context = this.#context;
    const batch = this.#batch;
    const namespace = this.#namespace;
    if (namespace.isDropped) {
      throw new TsdbError('NOT_FOUND', `namespace was deleted: ${namespace.name}`);
    }
    this.#nowNanos = context.time.nowNanos();
    this.#outcomes = context.scratch.zeros(batch.rowCount);
    if (namespace.leaving.count > 0) this.#refuseLeaving();
    this.#resolveReferences();
    let refused = context.store.check(batch, namespace.ordinal, this.#nowNanos, this.#outcomes);
    if (batch.version <= namespace.tombstones.versionMax) {
      const tagsOf = (slot: number) => namespace.index.tags(slot);
      refused += namespace.tombstones.refuse(batch, this.#outcomes, tagsOf);
      // The writer is told, so that it comes after the deletion when it sends the rows again.
      context.versions.accept(namespace.tombstones.versionMax);
    } else if (batch.derivesVersions) refused += this.#supersedeBeforeDeletions();
    if (refused === 0) this.#outcomes = noOutcomes;
    else {
      this.#outcomes = this.#outcomes.slice();
      this.#releaseUnused();
      this.#rows = acceptedRows(batch, this.#outcomes, batch.rowCount - refused);
    }
    if (this.#rows.rowCount === 0) return;
    this.#span = spanOf(this.#rows);
    if (namespace.options.writesToCommitLog) {
      this.#isLogged = true;
      this.#loggedSlots = this.#rows.slots.subarray(0, this.#rows.rowCount);
      // The columns are the sender's again when this is answered, and the log may ask for its
      // records after that.
      if (context.commitlog.keepsRecords) {
        this.#loggedSlots = this.#loggedSlots.slice();
        this.#logged = this.#encode().slice();
      }
    }
  }

  record(buffer: SegmentBuffer): void {
    if (!this.#isLogged) return;
    const namespace = this.#namespace;
    const rows = this.#rows;
    const loggedSlots = this.#loggedSlots;
    const madeEntries = this.#madeEntries;
    if (madeEntries.length > 0 && !this.#isRecorded) {
      namespace.recordMade(buffer, madeEntries, this.#references, this.#madeNames);
      // The sender may have its batch back when the log asks again.
      this.#isRecorded = this.#context.commitlog.keepsRecords;
      if (this.#isRecorded) this.#madeNames = [];
    }
    namespace.recordSeries(buffer, loggedSlots, loggedSlots.length);
    buffer.addBatch(namespace.ordinalIn(buffer), [this.#logged ?? this.#encode()]);
    const { first, last } = this.#span;
    const oldestMillis = (Number(first) * rows.timeUnitNanos) / 1e6;
    const newestMillis = (Number(last) * rows.timeUnitNanos) / 1e6;
    this.#context.commitlog.noteRows(buffer.segment, namespace.name, oldestMillis, newestMillis);
  }

  /** The rows alone: each segment has a dictionary of its own. Borrowed from the encoder. */
  #encode(): Uint8Array {
    const context = this.#context;
    const batch = this.#batch;
    const rows = this.#rows;
    return context.encoder.encode(batch.version, rows, batch.timeUnitNanos, batch.derivesVersions);
  }

  apply(): WriteResponse {
    const context = this.#context;
    const rows = this.#rows;
    const namespace = this.#namespace;
    if (rows.rowCount > 0) {
      const { version, derivesVersions } = this.#batch;
      const outcomes = context.scratch.zeros(rows.rowCount);
      const superseded = context.store.append(rows, version, outcomes, derivesVersions);
      if (superseded > 0) this.#noteSuperseded(outcomes, superseded);
      context.versions.accept(version);
      markRowsLive(namespace, rows, this.#span);
    }
    return this.#response(this.#outcomes);
  }

  #response(outcomes: Uint8Array): WriteResponse {
    const { referenceEpoch, versions, formats } = this.#context;
    return {
      referenceEpoch,
      outcomes,
      references: this.#references,
      highestVersion: versions.highest,
      deletionVersion: Math.max(this.#namespace.tombstones.versionMax, 0),
      formatLevelWritten: formats.level(),
    };
  }

  /** @param outcomes of the rows that were taken */
  #noteSuperseded(outcomes: Uint8Array, count: number): void {
    this.#supersededCount = count;
    if (this.#outcomes.length === 0) {
      this.#outcomes = outcomes.slice();
      return;
    }
    let taken = 0;
    for (const [row, outcome] of this.#outcomes.entries()) {
      if (outcome !== rowOutcome.written) continue;
      this.#outcomes[row] = outcomes[taken]!;
      taken += 1;
    }
  }

  /**
   * Rows of a batch that is later than all deletions, and than its namespace, while the versions that
   * would be derived for them are not: a deletion that is still being applied would take them.
   * @returns how many have to come with the batch's version
   */
  #supersedeBeforeDeletions(): number {
    const batch = this.#batch;
    const outcomes = this.#outcomes;
    const { tombstones, definition, isFormerEndKnown } = this.#namespace;
    // The deletion of the one before it of the name may not be known here yet.
    const made = isFormerEndKnown ? 0 : versionAtMillis(namespaceNumber(definition));
    const versionMax = Math.max(tombstones.versionMax, made < batch.version ? made : 0);
    if (versionMax <= batch.version - liveLagMax) return 0;
    const unit = BigInt(batch.timeUnitNanos);
    let count = 0;
    for (let row = 0; row < batch.rowCount; row += 1) {
      if (outcomes[row] !== rowOutcome.written) continue;
      if (derivedVersion(batch.version, batch.timestamps[row]! * unit) > versionMax) continue;
      outcomes[row] = rowOutcome.superseded;
      count += 1;
    }
    return count;
  }

  /** Series that expire have no references any more, though their slots are not free yet. */
  #refuseLeaving(): void {
    const outcomes = this.#outcomes;
    const namespace = this.#namespace;
    const { slots, generations, rowCount } = this.#batch;
    for (let row = 0; row < rowCount; row += 1) {
      if (generations[row] !== 0 && namespace.leaving.has(slots[row]!)) {
        outcomes[row] = rowOutcome.unknownReference;
      }
    }
  }

  /**
   * Gives dictionary rows their references, and refuses rows whose series, epoch or writer is
   * wrong.
   */
  #resolveReferences(): void {
    const batch = this.#batch;
    const context = this.#context;
    const request = this.#request;
    const references = this.#references;
    const { slots, generations } = batch;
    const knowsReferences = request.referenceEpoch === context.referenceEpoch;
    const { shards } = context;
    const checkShards = request.placementVersion < shards.writerVersionMax || shards.hasOthers;
    // The usual batch: the store checks its references.
    if (knowsReferences && !checkShards && batch.seriesCount === 0) return;
    const refusals = this.#resolveDictionary();
    for (let row = 0; row < batch.rowCount; row += 1) {
      if (generations[row] === 0) {
        const entry = slots[row]!;
        if (this.#outcomes[row] === rowOutcome.written) this.#outcomes[row] = refusals[entry]!;
        slots[row] = references[2 * entry]!;
        generations[row] = references[2 * entry + 1]!;
      } else if (!knowsReferences) {
        this.#outcomes[row] = rowOutcome.unknownReference;
      } else if (checkShards) {
        this.#outcomes[row] = this.#outcomeOfShard(slots[row]!, generations[row]!);
      }
    }
  }

  /** @returns by dictionary entry why its rows are refused, or 0 */
  #resolveDictionary(): Uint8Array {
    const batch = this.#batch;
    const context = this.#context;
    const request = this.#request;
    const namespace = this.#namespace;
    const references = this.#references;
    const refusals = new Uint8Array(batch.seriesCount);
    if (batch.seriesCount === 0) return refusals;
    const isTaken = this.#checkDictionaryTimes();
    for (let i = 0; i < batch.seriesCount; i += 1) {
      const series = this.#nameOf(i);
      const { seriesMade } = namespace;
      // A series is not made for rows that are refused for their times.
      const slot =
        isTaken[i] === 1
          ? namespace.resolve(series, request.placementVersion)
          : namespace.findExactly(series);
      if (namespace.seriesMade !== seriesMade) {
        this.#madeEntries.push(i);
        this.#madeNames.push(series);
      }
      if (slot >= 0) {
        references[2 * i] = slot;
        references[2 * i + 1] = context.store.generation[slot]!;
      } else if (isTaken[i] === 1) {
        refusals[i] = -1 - slot;
      }
    }
    return refusals;
  }

  /** Dictionary entry i. */
  #nameOf(i: number): SeriesName {
    const batch = this.#batch;
    return {
      idScheme: batch.seriesIdScheme(i),
      tags: batch.seriesTags(i),
      explicitId: batch.seriesId(i),
      idHash: batch.idHashes?.[i],
    };
  }

  /**
   * Refuses dictionary rows by their times. @returns by entry 1 when it has a row that may be taken
   */
  #checkDictionaryTimes(): Uint8Array {
    const batch = this.#batch;
    const namespace = this.#namespace;
    const outcomes = this.#outcomes;
    const { slots, generations, timestamps } = batch;
    const isTaken = new Uint8Array(batch.seriesCount);
    const window = namespace.writeWindow(this.#nowNanos);
    const unit = BigInt(batch.timeUnitNanos);
    const span = batch.rowCount === 0 ? emptySpan : spanOf(batch);
    const allInside = span.first * unit >= window.startNanos && span.last * unit < window.endNanos;
    for (let row = 0; row < batch.rowCount; row += 1) {
      if (generations[row] !== 0) continue;
      assert(slots[row]! < batch.seriesCount, 'a row names an entry of its dictionary');
      if (allInside) {
        isTaken[slots[row]!] = 1;
        continue;
      }
      const nanos = timestamps[row]! * unit;
      const side = sideOfWindow(window, nanos);
      if (side === 'inside') isTaken[slots[row]!] = 1;
      else outcomes[row] = rowOutcome[side];
    }
    return isTaken;
  }

  /** Series that were made for rows of which none is taken go at once. */
  #releaseUnused(): void {
    const madeEntries = this.#madeEntries;
    const references = this.#references;
    const batch = this.#batch;
    const outcomes = this.#outcomes;
    if (madeEntries.length === 0) return;
    const unused = new Map(madeEntries.map((entry) => [references[2 * entry]!, entry]));
    for (let row = 0; row < batch.rowCount; row += 1) {
      if (outcomes[row] === rowOutcome.written) unused.delete(batch.slots[row]!);
    }
    for (const entry of unused.values()) references.fill(0, 2 * entry, 2 * entry + 2);
    this.#namespace.release(Uint32Array.from(unused.keys()));
  }

  #outcomeOfShard(slot: number, generation: number): number {
    const { store, shards } = this.#context;
    const { index } = this.#namespace;
    if (store.generation[slot] !== generation || !index.has(slot)) {
      return rowOutcome.unknownReference;
    }
    const shard = index.shard(slot);
    if (shards.get(shard) === undefined) return rowOutcome.shardNotOwned;
    return shards.writerIsStale(shard, this.#request.placementVersion)
      ? rowOutcome.stalePlacement
      : rowOutcome.written;
  }
}

const seriesBytesUsual = 256;

/** Bytes that the batch would have, about. */
function bytesOf(batch: BatchView): number {
  return batch.rowCount * 24 + batch.seriesCount * seriesBytesUsual;
}

/** The rows whose outcome is 0, in new columns. */
function acceptedRows(batch: BatchView, outcomes: Uint8Array, rowCount: number): StoreRows {
  const slots = new Uint32Array(rowCount);
  const generations = new Uint32Array(rowCount);
  const timestamps = new BigInt64Array(rowCount);
  // By bits, since a number would lose the payload of a signalling NaN.
  const bits = new BigUint64Array(rowCount);
  const { buffer, byteOffset } = batch.values;
  const from = new BigUint64Array(buffer, byteOffset, batch.rowCount);
  let taken = 0;
  for (let row = 0; row < batch.rowCount; row += 1) {
    if (outcomes[row] !== rowOutcome.written) continue;
    slots[taken] = batch.slots[row]!;
    generations[taken] = batch.generations[row]!;
    timestamps[taken] = batch.timestamps[row]!;
    bits[taken] = from[row]!;
    taken += 1;
  }
  assert(taken === rowCount, 'the store counts the refused rows');
  const values = new Float64Array(bits.buffer);
  return { rowCount, slots, generations, timestamps, timeUnitNanos: batch.timeUnitNanos, values };
}

/** Oldest and newest timestamp; equal neighbours, the usual case, are passed by their words. */
export function spanOf(rows: StoreRows): TimeSpan {
  const { timestamps, rowCount } = rows;
  const words = new Uint32Array(timestamps.buffer, timestamps.byteOffset, 2 * rowCount);
  let first = timestamps[0]!;
  let last = first;
  for (let row = 1; row < rowCount; row += 1) {
    const at = 2 * row;
    if (words[at] === words[at - 2] && words[at + 1] === words[at - 1]) continue;
    const time = timestamps[row]!;
    if (time < first) first = time;
    if (time > last) last = time;
  }
  return { first, last };
}

/** Notes in the index which blocks the rows lie in. */
export function markRowsLive(namespace: NamespaceState, rows: StoreRows, span: TimeSpan): void {
  const unit = BigInt(rows.timeUnitNanos);
  const firstBlock = namespace.blockStartOf(span.first * unit);
  const lastBlock = namespace.blockStartOf(span.last * unit);
  if (firstBlock === lastBlock) {
    namespace.index.markLive(rows.slots.subarray(0, rows.rowCount), firstBlock);
    return;
  }
  const slotsOfBlock = new Map<bigint, number[]>();
  for (let row = 0; row < rows.rowCount; row += 1) {
    const block = namespace.blockStartOf(rows.timestamps[row]! * unit);
    const slots = slotsOfBlock.get(block);
    if (slots === undefined) slotsOfBlock.set(block, [rows.slots[row]!]);
    else slots.push(rows.slots[row]!);
  }
  for (const [block, slots] of slotsOfBlock) {
    namespace.index.markLive(slots, block);
  }
}
