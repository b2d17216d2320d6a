/**
 * The write decoder: bodies of any write format become rows (slot, timestamp, value), and each
 * series is checked, named and hashed once, when it is new. Identity is the canonical tags of
 * lib/tags.ts; the bytes of a wire format never are. Slots are this write decoder's own numbers,
 * given again after an eviction.
 */
import { isUtf8 } from 'node:buffer';
import { assert } from '#lib/assert.ts';
import { type Random } from '#lib/env/env.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import { tagsBytesMax, tagsCountMax } from '#lib/tags.ts';
import { exemplarRunesMax } from '../typed/exemplar.ts';
import {
  type WriteDecoderCore,
  type RemoteWriteVersion,
  bodyBytesMax,
  writeDecoderProblem,
  writeDecoderProblemText,
  writeDecoderRowsMax,
  exemplarProblem,
  type LineOptions,
  type LineProblems,
  type MetadataColumns,
  namelessSlot,
  oversizeSlot,
  unresolvedSlot,
} from './core.ts';
import { WriteDecoderKernel } from './kernel.ts';

export { bodyBytesMax, writeDecoderRowsMax, rawBytesMax } from './core.ts';
export type { RemoteWriteVersion } from './core.ts';

/** Columns are views that hold until the next call into the write decoder. */
export interface WriteDecoderRows {
  readonly rowCount: number;
  readonly slots: Uint32Array;
  /** Generation of the row's slot. */
  readonly generations: Uint32Array;
  /** False when no row is of a refused series. */
  readonly mayBeRefused: boolean;
  /** In units of `timeUnitNanos`; any int64, the product may lie outside of it. */
  readonly timestamps: BigInt64Array;
  readonly timeUnitNanos: 1_000_000 | 1;
  /** Any bits. */
  readonly values: Float64Array;
  /**
   * Start times by row, Unix nanoseconds, 0 for none; null when no sample has the field. Whether they may be written is
   * for who writes.
   */
  readonly startNanos: BigInt64Array | null;
  /** Native histograms of the body; null when there is none. */
  readonly histograms: WriteDecoderHistograms | null;
  /** Canonical tags of the first series of the body that has no metric name, in version 2; null for none. */
  readonly firstNameless: Uint8Array | null;
  /** Exemplars of the body; null when there is none. */
  readonly exemplars: WriteDecoderExemplars | null;
  /** Metadata of the body; null when there is none. */
  readonly metadata: WriteDecoderMetadata | null;
}

/** Exemplars as typed rows (docs/EXEMPLARS.md); views as above. */
export interface WriteDecoderExemplars {
  readonly rowCount: number;
  readonly slots: Uint32Array;
  readonly generations: Uint32Array;
  readonly mayBeRefused: boolean;
  readonly timestamps: BigInt64Array;
  readonly timeUnitNanos: 1;
  readonly valueEnds: Uint32Array;
  readonly valueBytes: Uint8Array;
  /** Those that are none, which are not among the rows: the first ones. */
  readonly bad: readonly BadExemplar[];
  readonly badCount: number;
  /** Further ones, which the room for a body does not hold, or whose times nobody can say. */
  readonly leftOutCount: number;
}

export interface BadExemplar {
  readonly slot: number;
  readonly problem: string;
}

/** Metadata that came with a body; it holds until the next call into the write decoder. */
export type WriteDecoderMetadata = MetadataColumns;

/** Native histograms as typed rows; views as above. */
export interface WriteDecoderHistograms {
  readonly rowCount: number;
  readonly slots: Uint32Array;
  readonly generations: Uint32Array;
  readonly mayBeRefused: boolean;
  readonly timestamps: BigInt64Array;
  readonly timeUnitNanos: 1_000_000;
  /** Unix nanoseconds, 0 for none; null when no row has any. */
  readonly startNanos: BigInt64Array | null;
  /** Ends of the values, which stand one after the other. */
  readonly valueEnds: Uint32Array;
  readonly valueBytes: Uint8Array;
  /** Those that are none, which are not among the rows: the first ones. */
  readonly bad: readonly BadHistogram[];
  readonly badCount: number;
}

export interface BadHistogram {
  readonly slot: number;
  readonly timestampMillis: bigint;
  readonly problem: string;
}

/** Bad histograms, and bad exemplars, of one body about which is said what is wrong. */
const badNamedMax = 20;

/** What the coordinator's rules say about a new series. */
export interface SeriesVerdict {
  /** `idSchemeCode` of lib/series_id/scheme.ts. */
  readonly idScheme: number;
  /** For scheme 0, else empty. */
  readonly explicitId: Uint8Array;
  /** murmur3_32 of the ID, seed 0. */
  readonly idHash: number;
  /** Why its rows are refused, or null. */
  readonly problem: string | null;
}

export interface WriteDecoderOptions {
  readonly random: Random;
  /**
   * For identities: series over it evict those that were not used for longest. Bodies come on top.
   */
  readonly memoryBytesMax: number;
  /**
   * Judges a series by its canonical tags (UTF-8, sorted; names may be wrong, empty or twice). It
   * must give the same verdict for the same tags, for it is asked again instead of kept in memory.
   */
  readonly verdictOf: (tags: Uint8Array) => SeriesVerdict;
  /**
   * True lets the kernel judge series about which `tagsProblem` of lib/tags.ts and the quoted ID
   * scheme leave no doubt: plain names and printable values. `verdictOf` is asked about the others
   * only, so it must not have rules beyond those.
   */
  readonly plainQuoted?: boolean;
  /**
   * Type and unit of the metadata of version 2 become the labels `__type__` and `__unit__` of their series,
   * as Prometheus' feature type-and-unit-labels has it.
   */
  readonly typeAndUnitLabels?: boolean;
}

/** A row from a format that is not parsed by the kernel. */
export interface WriteDecoderRow {
  /** Canonical layout (`encodeTags`). */
  readonly tags: Uint8Array;
  readonly timestampNanos: bigint;
  readonly value: number;
}

/** What came of a text. */
export interface DecodedLines {
  readonly rows: WriteDecoderRows;
  /** Bytes of the text up to which it was read: whole lines. */
  readonly readBytes: number;
  /** Line feeds in them. */
  readonly lineFeeds: number;
  /** Bad lines, which are not among the rows. */
  readonly problems: LineProblems;
}

/** Series as dictionary entries. */
export interface WriteDecoderEntries {
  /** Canonical tags, one after the other. */
  readonly tags: Uint8Array;
  /** End of each one's tags. */
  readonly ends: Uint32Array;
  readonly idSchemes: Uint8Array;
  readonly idHashes: Uint32Array;
}

const noBytes = new Uint8Array(0);

export class WriteDecoder {
  readonly #core: WriteDecoderCore;
  readonly #verdictOf: (tags: Uint8Array) => SeriesVerdict;
  readonly #plainQuoted: boolean;
  /** A series that is kept was refused once. */
  #hasRefused = false;

  /** @param core the twin, in tests; else the kernel */
  constructor(
    options: WriteDecoderOptions,
    core: WriteDecoderCore = new WriteDecoderKernel(
      options.random,
      options.memoryBytesMax,
      options.typeAndUnitLabels,
    ),
  ) {
    this.#verdictOf = options.verdictOf;
    this.#plainQuoted = options.plainQuoted ?? false;
    this.#core = core;
  }

  /**
   * Rows of a remote write body: all samples, native histograms and exemplars of all series, each in the order of the body,
   * and its metadata. Rows of refused series are among them: see `refused`.
   *
   * @param body snappy block of a WriteRequest, in version 2 of a Request; borrowed until return
   * @throws {TsdbError} BAD_REQUEST when the body is malformed or too large; then nothing is kept
   */
  remoteWrite(body: Uint8Array, version: RemoteWriteVersion = 1): WriteDecoderRows {
    if (body.length > bodyBytesMax) {
      throw badRequest(
        `cannot read remote write body: longer than ${bodyBytesMax} bytes: ${body.length}`,
      );
    }
    const outcome = this.#core.remoteWrite(body, version);
    if (outcome < 0) throw this.#failure('cannot read remote write body', outcome);
    this.#judgeNew();
    return this.#rows(1_000_000);
  }

  /**
   * Rows of lines of text, as many as are written at once; the text is read from its begin.
   * @param pieces of the text one after the other, together at most `lineBytesMax` bytes; borrowed until return
   * @throws {TsdbError} BAD_REQUEST when there is no room for the series of its first line; then nothing is kept
   */
  lines(pieces: readonly Uint8Array[], options: LineOptions): DecodedLines {
    const outcome = this.#core.lines(pieces, options);
    if (outcome < 0) throw this.#failure('cannot take lines', outcome);
    this.#judgeNew();
    const { lineFeeds, lineProblems, timeUnitNanos } = this.#core;
    return {
      rows: this.#rows(timeUnitNanos),
      readBytes: outcome,
      lineFeeds,
      problems: lineProblems,
    };
  }

  /**
   * Rows of another format.
   * @throws {TsdbError} BAD_REQUEST when there are more than `writeDecoderRowsMax`; then nothing is
   * kept
   */
  rows(rows: readonly WriteDecoderRow[]): WriteDecoderRows {
    if (rows.length > writeDecoderRowsMax) {
      throw badRequest(`cannot take rows: more than ${writeDecoderRowsMax}: ${rows.length}`);
    }
    this.#core.beginRows();
    for (const { tags, timestampNanos, value } of rows) {
      const outcome = this.#core.addRow(tags, timestampNanos, value);
      if (outcome < 0) throw this.#failure('cannot take rows', outcome);
    }
    this.#judgeNew();
    return this.#rows(1);
  }

  /** Begins rows that a walk of the caller adds one by one, until `endRows` or `dropRows`. */
  beginRows(): void {
    this.#core.beginRows();
  }

  /**
   * Slot of canonical tags, which is in use until the next rows begin.
   * @throws {TsdbError} RESOURCE_EXHAUSTED when there is no room
   */
  slotOf(tags: Uint8Array): number {
    const slot = this.#core.slotOf(tags);
    if (slot < 0) throw this.#failure('cannot take rows', slot);
    return slot;
  }

  /** Takes a slot in use; false when it was given to another series. */
  use(slot: number, generation: number): boolean {
    return this.#core.use(slot, generation);
  }

  /** As of `WriteDecoderCore`. */
  addSample(
    slot: number,
    timestampMillis: number,
    valueLow: number,
    valueHigh: number,
    startMillis: number,
  ): void {
    this.#core.addSample(slot, timestampMillis, valueLow, valueHigh, startMillis);
  }

  /** As of `WriteDecoderCore`. */
  addPackedSamples(packed: Uint8Array): number {
    return this.#core.addPackedSamples(packed);
  }

  /** As of `WriteDecoderCore`. */
  addSampleAt(slot: number, seconds: number, nanos: number, value: number): void {
    this.#core.addSampleAt(slot, seconds, nanos, value);
  }

  /**
   * @param message a histogram of remote write 2; borrowed until return
   * @returns why it is none that can be stored, and is not among the rows; else null
   */
  addHistogram(slot: number, message: Uint8Array): string | null {
    return this.#core.addHistogram(slot, message);
  }

  /** Rows that were added, in milliseconds. */
  endRows(): WriteDecoderRows {
    this.#core.endRows();
    this.#judgeNew();
    return this.#rows(1_000_000);
  }

  /** Rows of `addSampleAt`: in milliseconds when none is finer, else in nanoseconds. */
  endRowsInNanos(): WriteDecoderRows {
    this.#core.endRowsInNanos();
    this.#judgeNew();
    return this.#rows(this.#core.timeUnitNanos);
  }

  /** Nothing is kept of rows that were added. */
  dropRows(): void {
    this.#core.endRows();
    this.#core.forgetNew();
  }

  /** By slot: hash of the ID, for the shard. A view; take it again after each call. */
  get idHash(): Uint32Array {
    return this.#core.idHash;
  }

  /** By slot: changes when the slot is given to another series; never 0 for a slot in use. */
  get generation(): Uint32Array {
    return this.#core.generation;
  }

  /** By slot: 1 when the rows of the series are refused; `problem` says why. */
  get refused(): Uint8Array {
    return this.#core.refused;
  }

  /** Why the rows of a refused slot are refused; '' when they are not. */
  problem(slot: number): string {
    if (slot === oversizeSlot) {
      return `series has more than ${tagsCountMax} tags or its tags more than ${tagsBytesMax} bytes`;
    }
    if (slot === namelessSlot) return 'series has no metric name: __name__';
    if (slot === unresolvedSlot) {
      return 'labels_refs: not pairs of places in the symbols of the request';
    }
    if (this.refused[slot] !== 1) return '';
    const tags = this.#core.tags(slot);
    return textProblem(tags) ?? this.#verdictOf(new Uint8Array(tags)).problem ?? '';
  }

  /**
   * A copy of the canonical tags; empty for a series whose tags are too many or too long to keep.
   */
  tags(slot: number): Uint8Array {
    return new Uint8Array(this.#core.tags(slot));
  }

  /** The canonical tags until the next call into the write decoder. */
  borrowTags(slot: number): Uint8Array {
    return this.#core.tags(slot);
  }

  /** Length of the canonical tags: for many rows, of which a view each would take longer than the rest. */
  tagBytes(slot: number): number {
    return this.#core.tagBytes(slot);
  }

  idScheme(slot: number): number {
    return this.#core.idScheme[slot]!;
  }

  /** For ID scheme 0, else empty. */
  explicitId(slot: number): Uint8Array {
    if (this.idScheme(slot) !== 0 || this.refused[slot] === 1) return noBytes;
    return this.#verdictOf(this.tags(slot)).explicitId;
  }

  /**
   * Tags and IDs of many slots at once, for a session (`SeriesTable`). Every slot that is not
   * refused has tags that were checked; null when one has an explicit ID.
   */
  checkedEntries(slots: Uint32Array): WriteDecoderEntries | null {
    const core = this.#core;
    const idSchemes = new Uint8Array(slots.length);
    const idHashes = new Uint32Array(slots.length);
    for (let i = 0; i < slots.length; i++) {
      const slot = slots[i]!;
      if (core.refused[slot] !== 0 || core.idScheme[slot] === 0) return null;
      idSchemes[i] = core.idScheme[slot]!;
      idHashes[i] = core.idHash[slot]!;
    }
    const { tags, ends } = core.tagsOfAll(slots);
    return { tags, ends, idSchemes, idHashes };
  }

  get seriesCount(): number {
    return this.#core.seriesCount;
  }

  get memoryBytes(): number {
    return this.#core.memoryBytes;
  }

  #rows(timeUnitNanos: 1_000_000 | 1): WriteDecoderRows {
    return {
      rowCount: this.#core.rowCount,
      slots: this.#core.rowSlots,
      generations: this.#core.rowGenerations,
      mayBeRefused: this.#hasRefused || this.#core.hasOversizeRows,
      timestamps: this.#core.rowTimestamps,
      timeUnitNanos,
      values: this.#core.rowValues,
      startNanos: this.#core.rowStartNanos,
      histograms: this.#histograms(),
      firstNameless: this.#firstNameless(),
      exemplars: this.#exemplars(),
      metadata: this.#metadata(),
    };
  }

  #firstNameless(): Uint8Array | null {
    const slot = this.#core.firstNamelessSlot;
    return slot === 0 ? null : this.tags(slot);
  }

  #metadata(): WriteDecoderMetadata | null {
    const all = this.#core.metadata;
    return all.count === 0 ? null : all;
  }

  #exemplars(): WriteDecoderExemplars | null {
    const all = this.#core.exemplars;
    if (all.count === 0) return null;
    const { problems } = all;
    const bad: BadExemplar[] = [];
    let [badCount, untimedCount] = [0, 0];
    for (let row = 0; row < all.count; row++) {
      const problem = problems[row]!;
      if (problem === 0) continue;
      if (problem === exemplarProblem.badTime) {
        untimedCount += 1;
        continue;
      }
      badCount += 1;
      if (bad.length === badNamedMax) continue;
      bad.push({ slot: all.slots[row]!, problem: exemplarProblemText(problem) });
    }
    const isGood = (_: number | bigint, row: number): boolean => problems[row] === 0;
    const ofGood = <Column extends Uint32Array | BigInt64Array>(column: Column): Column =>
      (badCount + untimedCount === 0 ? column : (column as Uint32Array).filter(isGood)) as Column;
    return {
      rowCount: all.count - badCount - untimedCount,
      slots: ofGood(all.slots),
      generations: ofGood(all.generations),
      mayBeRefused: this.#hasRefused || this.#core.hasOversizeRows,
      timestamps: ofGood(all.timestampNanos),
      timeUnitNanos: 1,
      valueEnds: ofGood(all.valueEnds),
      valueBytes: all.valueBytes,
      bad,
      badCount,
      leftOutCount: all.leftOutCount + untimedCount,
    };
  }

  #histograms(): WriteDecoderHistograms | null {
    const all = this.#core.histograms;
    if (all.count === 0) return null;
    const { slots, generations, timestampsMillis, startNanos, valueEnds, valueBytes } = all;
    const isGood = (row: number): boolean =>
      valueEnds[row]! > (row === 0 ? 0 : valueEnds[row - 1]!);
    const bad: BadHistogram[] = [];
    let badCount = 0;
    for (let row = 0; row < all.count; row++) {
      if (isGood(row)) continue;
      badCount += 1;
      if (bad.length === badNamedMax) continue;
      const problem = this.#core.histogramProblem(row);
      bad.push({ slot: slots[row]!, timestampMillis: timestampsMillis[row]!, problem });
    }
    const hasGood = (_: number | bigint, row: number): boolean => isGood(row);
    const ofGood = <Column extends Uint32Array | BigInt64Array>(column: Column): Column =>
      (badCount === 0 ? column : (column as Uint32Array).filter(hasGood)) as Column;
    return {
      rowCount: all.count - badCount,
      slots: ofGood(slots),
      generations: ofGood(generations),
      mayBeRefused: this.#hasRefused || this.#core.hasOversizeRows,
      timestamps: ofGood(timestampsMillis),
      timeUnitNanos: 1_000_000,
      startNanos: startNanos.every((nanos) => nanos === 0n) ? null : ofGood(startNanos),
      valueEnds: ofGood(valueEnds),
      valueBytes,
      bad,
      badCount,
    };
  }

  /** Every slot of the last body has its verdict after this, or none of its new slots is kept. */
  #judgeNew(): void {
    const core = this.#core;
    if (core.newSlots.length === 0) return;
    const asked = core.judgePlain(this.#plainQuoted);
    try {
      for (const slot of core.newSlots.subarray(0, asked)) {
        const tags = new Uint8Array(core.tags(slot));
        let refused = textProblem(tags) !== null;
        if (!refused) {
          const verdict = this.#verdictOf(tags);
          refused = verdict.problem !== null;
          core.idHash[slot] = verdict.idHash;
          core.idScheme[slot] = verdict.idScheme;
        }
        core.refused[slot] = refused ? 1 : 0;
        this.#hasRefused ||= refused;
      }
    } catch (error) {
      core.forgetNew();
      throw error;
    }
  }

  #failure(what: string, problem: number): TsdbError {
    const code = problem === writeDecoderProblem.noRoom ? 'RESOURCE_EXHAUSTED' : 'BAD_REQUEST';
    return new TsdbError(code, `${what}: ${writeDecoderProblemText(problem)}`);
  }
}

function exemplarProblemText(problem: number): string {
  switch (problem) {
    case exemplarProblem.tooLong:
      return `labels of the exemplar have more than ${exemplarRunesMax} characters`;
    case exemplarProblem.notUtf8:
      return 'labels of the exemplar are not UTF-8';
    default:
      return 'labels_refs of the exemplar: not pairs of places in the symbols of the request';
  }
}

/** Why a canonical layout cannot be shown to the rules, or null. */
function textProblem(tags: Uint8Array): string | null {
  let at = 0;
  let name: Uint8Array | null = null;
  while (at < tags.length) {
    assert(tags.length - at >= 2, 'canonical tags are whole');
    const start = at + 2;
    const end = start + (tags[at]! | (tags[at + 1]! << 8));
    assert(end <= tags.length, 'canonical tags are whole');
    const text = tags.subarray(start, end);
    if (!isUtf8(text)) {
      return name === null
        ? `tag name is not UTF-8: ${shown(text)}`
        : `tag value is not UTF-8: ${shown(name)}`;
    }
    name = name === null ? text : null;
    at = end;
  }
  return null;
}

/** Longest part of a bad text that a message repeats. */
const shownBytesMax = 100;

function shown(text: Uint8Array): string {
  return JSON.stringify(Buffer.from(text.subarray(0, shownBytesMax)).toString('utf8'));
}
