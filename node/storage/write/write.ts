/**
 * One batch on its way through the sequencer: its dictionary is resolved and its rows are checked
 * in the order of the log, the rows that are taken are logged as one batch, and applied.
 */
import { namespaceNumber } from '#cluster/namespaces/numbers.ts';
import type { ColumnsWriteRequest, WriteRequest, WriteResponse } from '#cluster/node/service.ts';
import { rowOutcome } from '#cluster/node/service.ts';
import { readTypedBatch, rowsOfBatch, type TypedBatchView } from '#engine/batch/batch.ts';
import type { SampleStore } from '#engine/store/sample_store.ts';
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
import { BatchRows, markRowsLive, spanOf } from './batch_rows.ts';
import type { LogBatches } from './log_batch.ts';
import type { SequencedWrite } from './sequencer.ts';
import { newestSchemaIn, refuseOtherValues } from './value_rules.ts';
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
  readonly logBatches: LogBatches;
  readonly scratch: WriteScratch;
}

/**
 * Outcomes of the batch that is prepared or applied; fresh ones for each batch would cost more than
 * its checks.
 */
export class WriteScratch {
  #outcomes = new Uint8Array(4096);
  /** Of dictionary entries that were looked up, or made, since the loop turned for them, of however many batches. */
  tagBytes = 0;

  /** Zeros for so many rows, until the next call. */
  zeros(rowCount: number): Uint8Array {
    if (rowCount > this.#outcomes.length) this.#outcomes = new Uint8Array(2 * rowCount);
    return this.#outcomes.subarray(0, rowCount).fill(0);
  }
}

const noOutcomes = new Uint8Array(0);
/** Of dictionary entries that are looked up, or made, in one stretch of the main loop. */
const tagBytesAtOnce = 8 * 1024;

export class PendingWrite implements SequencedWrite<WriteResponse> {
  readonly bytes: number;
  /** Of the batch, of all kinds. */
  readonly rowCount: number;
  readonly #context: WriteContext;
  readonly #namespace: NamespaceState;
  readonly #request: WriteRequest | ColumnsWriteRequest;
  readonly #batch: TypedBatchView;
  /** Its rows by kind; their outcomes follow each other. */
  readonly #parts: readonly BatchRows[];
  /** Rows that are taken, with those that are superseded as they are applied. */
  #takenCount = 0;
  /** Of the batch's rows, while they are prepared; then kept only when one is refused. */
  #outcomes: Uint8Array = noOutcomes;
  #references: Uint32Array;
  #isLogged = false;
  /** The batch of the log, where that may ask for it after this is answered. */
  #logged: Uint8Array | null = null;
  /** Slots of the logged rows, by part. */
  #loggedSlots: readonly Uint32Array[] = [];
  #nowNanos = 0n;
  /** Dictionary entries whose series this batch has made. */
  readonly #madeEntries: number[] = [];
  /** Their names, until they are recorded. */
  #madeNames: SeriesName[] = [];
  #isRecorded = false;
  #supersededCount = 0;

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
    this.#batch = batch instanceof Uint8Array ? readTypedBatch(batch) : batch;
    this.bytes = batch instanceof Uint8Array ? batch.length : bytesOf(batch);
    let rowCount = 0;
    this.#parts = rowsOfBatch(this.#batch).map((of) => {
      const rows = new BatchRows(of, rowCount);
      rowCount += of.rows.rowCount;
      return rows;
    });
    this.rowCount = rowCount;
    this.#takenCount = rowCount;
    this.#references = new Uint32Array(2 * this.#batch.seriesCount);
  }

  get version(): number {
    return this.#batch.version;
  }

  get derivesVersions(): boolean {
    return this.#batch.derivesVersions;
  }

  /** It has typed rows, or start times. */
  get isTyped(): boolean {
    const { typedRows = null, startNanos = null } = this.#batch;
    return typedRows !== null || startNanos !== null;
  }

  /** The highest number of a schema that its rows are of; 0 without messages. */
  get newestSchema(): number {
    return this.#parts.reduce((newest, { taken }) => Math.max(newest, newestSchemaIn(taken)), 0);
  }

  /** Rows that were taken, once `prepare` and, of those that were superseded, `apply` has run. */
  get writtenCount(): number {
    return this.#takenCount - this.#supersededCount;
  }

  /** The answer when all rows are refused for one reason, and nothing else is done. */
  refused(outcome: number): WriteResponse {
    return this.#response(new Uint8Array(this.rowCount).fill(outcome));
  }

  *prepare(): Generator<void, void, void> {
    const context = this.#context;
    const namespace = this.#namespace;
    if (namespace.isDropped) {
      throw new TsdbError('NOT_FOUND', `namespace was deleted: ${namespace.name}`);
    }
    this.#nowNanos = context.time.nowNanos();
    this.#outcomes = context.scratch.zeros(this.rowCount);
    if (namespace.leaving.count > 0) this.#refuseLeaving();
    yield* this.#resolveReferences();
    let refused = 0;
    for (const part of this.#parts) {
      refused += part.check(context.store, namespace.ordinal, this.#nowNanos, this.#outcomes);
    }
    for (const part of this.#parts) {
      refused += refuseOtherValues(part.taken, namespace, part.outcomesOf(this.#outcomes));
    }
    refused += this.#refuseForDeletions();
    if (refused === 0) this.#outcomes = noOutcomes;
    else {
      this.#outcomes = this.#outcomes.slice();
      this.#releaseUnused();
      for (const part of this.#parts) part.keepTaken(this.#outcomes);
      this.#takenCount = this.rowCount - refused;
    }
    if (this.#takenCount === 0 || !namespace.options.writesToCommitLog) return;
    this.#isLogged = true;
    this.#loggedSlots = this.#taken().map(({ taken: { rows } }) =>
      rows.slots.subarray(0, rows.rowCount),
    );
    // The columns are the sender's again when this is answered, and the log may ask for its
    // records after that.
    if (context.commitlog.keepsRecords) {
      this.#loggedSlots = this.#loggedSlots.map((slots) => slots.slice());
      this.#logged = this.#encode().slice();
    }
  }

  /** Parts of which rows are taken. */
  #taken(): readonly BatchRows[] {
    return this.#parts.filter(({ taken }) => taken.rows.rowCount > 0);
  }

  record(buffer: SegmentBuffer): void {
    if (!this.#isLogged) return;
    const namespace = this.#namespace;
    const madeEntries = this.#madeEntries;
    if (madeEntries.length > 0 && !this.#isRecorded) {
      namespace.recordMade(buffer, madeEntries, this.#references, this.#madeNames);
      // The sender may have its batch back when the log asks again.
      this.#isRecorded = this.#context.commitlog.keepsRecords;
      if (this.#isRecorded) this.#madeNames = [];
    }
    for (const slots of this.#loggedSlots) namespace.recordSeries(buffer, slots, slots.length);
    buffer.addBatch(namespace.ordinalIn(buffer), [this.#logged ?? this.#encode()]);
    const { commitlog } = this.#context;
    for (const { span } of this.#taken()) {
      const oldestMillis = Number(span.firstNanos) / 1e6;
      const newestMillis = Number(span.lastNanos) / 1e6;
      commitlog.noteRows(buffer.segment, namespace.name, oldestMillis, newestMillis);
    }
  }

  /** Borrowed until the next batch. */
  #encode(): Uint8Array {
    const { version, derivesVersions } = this.#batch;
    const parts = this.#taken().map(({ taken }) => taken);
    return this.#context.logBatches.encode(version, derivesVersions, parts);
  }

  *apply(): Generator<void, WriteResponse> {
    const context = this.#context;
    const namespace = this.#namespace;
    if (this.#takenCount > 0) {
      const { version, derivesVersions } = this.#batch;
      for (const part of this.#taken()) {
        const { rows } = part.taken;
        const outcomes = context.scratch.zeros(rows.rowCount);
        // Before its rows, of which some are readable between the steps.
        markRowsLive(namespace, rows, part.span);
        const superseded = yield* part.append(context.store, version, outcomes, derivesVersions);
        if (superseded > 0) this.#noteSuperseded(part, outcomes, superseded);
      }
      context.versions.accept(version);
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

  /** @param takenOutcomes of the rows of the part that were taken */
  #noteSuperseded(part: BatchRows, takenOutcomes: Uint8Array, count: number): void {
    this.#supersededCount += count;
    if (this.#outcomes.length === 0) this.#outcomes = new Uint8Array(this.rowCount);
    const outcomes = part.outcomesOf(this.#outcomes);
    let taken = 0;
    for (const [row, outcome] of outcomes.entries()) {
      if (outcome !== rowOutcome.written) continue;
      outcomes[row] = takenOutcomes[taken]!;
      taken += 1;
    }
  }

  /** @returns how many rows a deletion is in the way of */
  #refuseForDeletions(): number {
    const { version, derivesVersions } = this.#batch;
    const { tombstones, index } = this.#namespace;
    let count = 0;
    if (version <= tombstones.versionMax) {
      const tagsOf = (slot: number) => index.tags(slot);
      for (const part of this.#parts) {
        const outcomes = part.outcomesOf(this.#outcomes);
        count += tombstones.refuse(version, part.columns, outcomes, tagsOf);
      }
      // The writer is told, so that it comes after the deletion when it sends the rows again.
      this.#context.versions.accept(tombstones.versionMax);
    } else if (derivesVersions) {
      for (const part of this.#parts) count += this.#supersedeBeforeDeletions(part);
    }
    return count;
  }

  /**
   * Rows of a batch that is later than all deletions, and than its namespace, while the versions that
   * would be derived for them are not: a deletion that is still being applied would take them.
   * @returns how many have to come with the batch's version
   */
  #supersedeBeforeDeletions(part: BatchRows): number {
    const { version } = this.#batch;
    const outcomes = part.outcomesOf(this.#outcomes);
    const { tombstones, definition, isFormerEndKnown } = this.#namespace;
    // The deletion of the one before it of the name may not be known here yet.
    const made = isFormerEndKnown ? 0 : versionAtMillis(namespaceNumber(definition));
    const versionMax = Math.max(tombstones.versionMax, made < version ? made : 0);
    if (versionMax <= version - liveLagMax) return 0;
    const { rowCount, timestamps, timeUnitNanos } = part.columns;
    const unit = BigInt(timeUnitNanos);
    let count = 0;
    for (let row = 0; row < rowCount; row += 1) {
      if (outcomes[row] !== rowOutcome.written) continue;
      if (derivedVersion(version, timestamps[row]! * unit) > versionMax) continue;
      outcomes[row] = rowOutcome.superseded;
      count += 1;
    }
    return count;
  }

  /** Series that expire have no references any more, though their slots are not free yet. */
  #refuseLeaving(): void {
    const { leaving } = this.#namespace;
    for (const part of this.#parts) {
      const outcomes = part.outcomesOf(this.#outcomes);
      const { slots, generations, rowCount } = part.columns;
      for (let row = 0; row < rowCount; row += 1) {
        if (generations[row] !== 0 && leaving.has(slots[row]!)) {
          outcomes[row] = rowOutcome.unknownReference;
        }
      }
    }
  }

  /**
   * Gives dictionary rows their references, and refuses rows whose series, epoch or writer is
   * wrong.
   */
  *#resolveReferences(): Generator<void, void, void> {
    const context = this.#context;
    const request = this.#request;
    const references = this.#references;
    const knowsReferences = request.referenceEpoch === context.referenceEpoch;
    const { shards } = context;
    const checkShards = request.placementVersion < shards.writerVersionMax || shards.hasOthers;
    // The usual batch: the store checks its references.
    if (knowsReferences && !checkShards && this.#batch.seriesCount === 0) return;
    const refusals = yield* this.#resolveDictionary();
    for (const part of this.#parts) {
      const outcomes = part.outcomesOf(this.#outcomes);
      const { slots, generations, rowCount } = part.columns;
      for (let row = 0; row < rowCount; row += 1) {
        if (generations[row] === 0) {
          const entry = slots[row]!;
          if (outcomes[row] === rowOutcome.written) outcomes[row] = refusals[entry]!;
          slots[row] = references[2 * entry]!;
          generations[row] = references[2 * entry + 1]!;
        } else if (!knowsReferences) {
          outcomes[row] = rowOutcome.unknownReference;
        } else if (checkShards) {
          outcomes[row] = this.#outcomeOfShard(slots[row]!, generations[row]!);
        }
      }
    }
  }

  /** @returns by dictionary entry why its rows are refused, or 0 */
  *#resolveDictionary(): Generator<void, Uint8Array, void> {
    const batch = this.#batch;
    const context = this.#context;
    const request = this.#request;
    const namespace = this.#namespace;
    const references = this.#references;
    const refusals = new Uint8Array(batch.seriesCount);
    if (batch.seriesCount === 0) return refusals;
    const isTaken = this.#checkDictionaryTimes();
    const { scratch } = context;
    for (let i = 0; i < batch.seriesCount; i += 1) {
      const series = this.#nameOf(i);
      scratch.tagBytes += series.tags.length;
      if (scratch.tagBytes > tagBytesAtOnce) {
        yield;
        scratch.tagBytes = series.tags.length;
      }
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
    const { seriesCount } = this.#batch;
    const isTaken = new Uint8Array(seriesCount);
    const window = this.#namespace.writeWindow(this.#nowNanos);
    for (const part of this.#parts) {
      const outcomes = part.outcomesOf(this.#outcomes);
      const { slots, generations, timestamps, rowCount, timeUnitNanos } = part.columns;
      const unit = BigInt(timeUnitNanos);
      const span = spanOf(part.columns);
      const allInside = span.firstNanos >= window.startNanos && span.lastNanos < window.endNanos;
      for (let row = 0; row < rowCount; row += 1) {
        if (generations[row] !== 0) continue;
        assert(slots[row]! < seriesCount, 'a row names an entry of its dictionary');
        if (allInside) {
          isTaken[slots[row]!] = 1;
          continue;
        }
        const nanos = timestamps[row]! * unit;
        const side = sideOfWindow(window, nanos);
        if (side === 'inside') isTaken[slots[row]!] = 1;
        else outcomes[row] = rowOutcome[side];
      }
    }
    return isTaken;
  }

  /** Series that were made for rows of which none is taken go at once. */
  #releaseUnused(): void {
    const madeEntries = this.#madeEntries;
    const references = this.#references;
    if (madeEntries.length === 0) return;
    const unused = new Map(madeEntries.map((entry) => [references[2 * entry]!, entry]));
    for (const part of this.#parts) {
      const outcomes = part.outcomesOf(this.#outcomes);
      const { slots, rowCount } = part.columns;
      for (let row = 0; row < rowCount; row += 1) {
        if (outcomes[row] === rowOutcome.written) unused.delete(slots[row]!);
      }
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
function bytesOf({
  rowCount,
  seriesCount,
  startNanos = null,
  typedRows = null,
}: TypedBatchView): number {
  const starts = startNanos === null ? 0 : rowCount * 8;
  const typed = typedRows === null ? 0 : typedRows.rowCount * 28 + typedRows.valueBytes.length;
  return rowCount * 24 + starts + typed + seriesCount * seriesBytesUsual;
}
