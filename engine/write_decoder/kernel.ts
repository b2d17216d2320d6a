/**
 * The write decoder's machine on the kernel of engine/write_decoder/kernel/write_decoder.kernel.ts,
 * with a memory of its own.
 */
import { assert } from '#lib/assert.ts';
import { type Random } from '#lib/env/env.ts';
import { compileWasmFile } from '#lib/env/wasm.ts';
import { tagsBytesMax } from '#lib/tags.ts';
import {
  type ExemplarColumns,
  exemplarsMax,
  type HistogramColumns,
  histogramsMax,
  type LineOptions,
  type LineProblems,
  type MetadataColumns,
  metadataMax,
  namelessSlot,
  unresolvedSlot,
  type WriteDecoderCore,
  type RemoteWriteVersion,
  bodyBytesMax,
  writeDecoderProblem,
  writeDecoderRowsMax,
  oversizeSlot,
  rawBytesMax,
  packedSampleBytes,
} from './core.ts';
import { hostNumbersMax, lineBytesMax, lineProblemsMax } from './lines/layout.ts';
import { TextOfPieces } from './lines/pieces.ts';
import type { LineProblem } from './lines/problems.ts';
import { powersOfFive } from './lines/powers_of_five.ts';
import { metricTypes } from '../typed/metadata.ts';
import { histogramProblem } from './wire_histogram.ts';
import type { WriteDecoderExports } from './write_decoder_exports.ts';

const pageBytes = 65_536;
const hashKeyBytes = 1024;
const segmentBytes = 1 << 18;
const segmentsMin = 4;
/** Record address, ID hash, generation, refused and ID scheme of a slot. */
const slotBytes = 14;
const tableEntryBytes = 8;
/** One slot for so many bytes of the budget: two thirds of a usual series' tags and bookkeeping. */
const budgetBytesPerSlot = 256;
/** The kernel's regions for one body, and slack; they are touched as bodies need them. */
const bodyRegionsBytes: number = 217 * 1024 * 1024;

/** As of engine/write_decoder/kernel/identity/memory.ts. */
const typeTextBytes = 16;
/** As of engine/write_decoder/kernel/remote_write/metadata.ts. */
const metadataEntryWords = 12;

/** As of engine/write_decoder/kernel/lines/lines.ts. */
const lineProblemWords = 3;
const lineNumberWords = 3;
/** A line of `lineBytesMax` has not more fields, and no line is read when there are `hostNumbersMax / 2` already. */
const lineNumbersMax: number = lineBytesMax / 4 + hostNumbersMax;

const nanosOfMilli = 1_000_000;
const nanosOfSecond = 1_000_000_000;

/** Slots whose tags are asked for in one call. */
const entriesAtOnce = 65_536;

/** Least budget that makes sense. */
export const writeDecoderMemoryBytesMin: number = 2 * 1024 * 1024;
/** A WebAssembly memory ends at 4 GiB. */
export const writeDecoderMemoryBytesMax: number = 3 * 1024 * 1024 * 1024;

const lineWindowBytesDefault: number = 64 << 10;

let compiled: WebAssembly.Module | null = null;
let powers: BigUint64Array | null = null;

/** How a budget is shared between slots, table and tags. */
function divide(memoryBytesMax: number): {
  slotsMax: number;
  tableSizeMax: number;
  segmentCount: number;
} {
  const slotsMax = Math.floor(memoryBytesMax / budgetBytesPerSlot);
  const tableSizeMax = 2 ** Math.ceil(Math.log2(slotsMax * 1.5));
  const left = memoryBytesMax - slotsMax * slotBytes - tableSizeMax * tableEntryBytes;
  return {
    slotsMax,
    tableSizeMax,
    segmentCount: Math.max(segmentsMin, Math.floor(left / segmentBytes)),
  };
}

export class WriteDecoderKernel implements WriteDecoderCore {
  readonly #kernel: WriteDecoderExports;
  readonly #bytes: Uint8Array;
  readonly #bodyAt: number;
  readonly #rawAt: number;
  readonly #canonicalAt: number;
  readonly #rowSlots: Uint32Array;
  readonly #rowGenerations: Uint32Array;
  readonly #rowTimestamps: BigInt64Array;
  readonly #rowValues: Float64Array;
  readonly #rowStarts: BigInt64Array;
  /** The same columns, two words a row. */
  readonly #rowTimeWords: Uint32Array;
  readonly #rowValueWords: Uint32Array;
  readonly #rowStartWords: Uint32Array;
  readonly #newSlots: Uint32Array;
  /** Of as many histograms as there may be. */
  readonly #histograms: Omit<HistogramColumns, 'count'>;
  /** Where each bad one stands in the body: two words. */
  readonly #histogramSources: Uint32Array;
  /** Of as many exemplars as there may be. */
  readonly #exemplars: Omit<ExemplarColumns, 'count' | 'leftOutCount'>;
  readonly #metadataEntries: Uint32Array;
  readonly idHash: Uint32Array;
  readonly generation: Uint32Array;
  readonly refused: Uint8Array;
  readonly idScheme: Uint8Array;
  #rowCount = 0;
  /** Rows up to the last one that was added here with a start time. */
  #startCount = 0;
  timeUnitNanos: 1_000_000 | 1 = 1;
  readonly #lineProblemWords: Uint32Array;
  readonly #lineWords: Uint32Array;
  /** One that was added here. */
  #hasOversizeRow = false;

  readonly #typeAndUnit: number;
  readonly #lineWindowBytes: number;
  lineFeeds = 0;
  lineProblems: LineProblems = { count: 0, listed: [] };

  /** @param lineWindowBytes of lines that are read in one go, so that they stay in the processor's cache; but for longer lines */
  constructor(
    random: Random,
    memoryBytesMax: number,
    typeAndUnitLabels: boolean = false,
    lineWindowBytes: number = lineWindowBytesDefault,
  ) {
    this.#typeAndUnit = typeAndUnitLabels ? 1 : 0;
    this.#lineWindowBytes = lineWindowBytes;
    assert(
      memoryBytesMax >= writeDecoderMemoryBytesMin && memoryBytesMax <= writeDecoderMemoryBytesMax,
      'the budget of a write decoder is between 2 MiB and 3 GiB',
    );
    const { slotsMax, tableSizeMax, segmentCount } = divide(memoryBytesMax);
    // The whole range is there from the start, so views hold forever; the system gives pages when
    // they are touched.
    const pages = Math.ceil(
      (bodyRegionsBytes +
        slotsMax * slotBytes +
        tableSizeMax * tableEntryBytes +
        segmentCount * (segmentBytes + tableEntryBytes) +
        8 * pageBytes) /
        pageBytes,
    );
    const memory = new WebAssembly.Memory({ initial: pages, maximum: pages });
    compiled ??= compileWasmFile(new URL('../build/write_decoder.wasm', import.meta.url));
    const instance = new WebAssembly.Instance(compiled, { env: { memory } });
    const kernel = instance.exports as unknown as WriteDecoderExports;
    const { buffer } = memory;
    this.#kernel = kernel;
    this.#bytes = new Uint8Array(buffer);
    this.#bytes.set(random.bytes(hashKeyBytes), addressOf(kernel.hashKeys));
    const texts = ['__type__', ...metricTypes.slice(1), '__unit__'];
    for (const [place, text] of texts.entries()) {
      const at = addressOf(kernel.typeTexts) + place * typeTextBytes;
      this.#bytes.set(new TextEncoder().encode(text), at);
      this.#bytes[at + typeTextBytes - 1] = text.length;
    }
    powers ??= powersOfFive();
    new BigUint64Array(buffer, addressOf(kernel.powersOfFive), powers.length).set(powers);
    const end = kernel.init(slotsMax, tableSizeMax, segmentCount) >>> 0;
    assert(end <= buffer.byteLength, 'the regions of the write decoder lie in its memory');
    this.#bodyAt = addressOf(kernel.body);
    this.#rawAt = addressOf(kernel.raw);
    this.#canonicalAt = addressOf(kernel.canonical);
    this.#rowSlots = new Uint32Array(buffer, addressOf(kernel.rowSlots), writeDecoderRowsMax);
    this.#rowGenerations = new Uint32Array(
      buffer,
      addressOf(kernel.rowGenerations),
      writeDecoderRowsMax,
    );
    this.#rowTimestamps = new BigInt64Array(
      buffer,
      addressOf(kernel.rowTimestamps),
      writeDecoderRowsMax,
    );
    this.#rowValues = new Float64Array(buffer, addressOf(kernel.rowValues), writeDecoderRowsMax);
    this.#rowStarts = new BigInt64Array(buffer, addressOf(kernel.rowStarts), writeDecoderRowsMax);
    const [times, values, starts] = [this.#rowTimestamps, this.#rowValues, this.#rowStarts].map(
      ({ byteOffset }) => new Uint32Array(buffer, byteOffset, 2 * writeDecoderRowsMax),
    );
    this.#rowTimeWords = times!;
    this.#rowValueWords = values!;
    this.#rowStartWords = starts!;
    this.#newSlots = new Uint32Array(buffer, addressOf(kernel.newSlots), writeDecoderRowsMax);
    const words = (at: { readonly value: number }, perRow = 1): Uint32Array =>
      new Uint32Array(buffer, addressOf(at), perRow * histogramsMax);
    const timesAt = (at: { readonly value: number }): BigInt64Array =>
      new BigInt64Array(buffer, addressOf(at), histogramsMax);
    this.#histograms = {
      slots: words(kernel.histogramSlots),
      generations: words(kernel.histogramGenerations),
      timestampsMillis: timesAt(kernel.histogramTimestamps),
      startNanos: timesAt(kernel.histogramStarts),
      valueEnds: words(kernel.histogramEnds),
      valueBytes: this.#bytes.subarray(addressOf(kernel.histogramValues)),
    };
    this.#histogramSources = words(kernel.histogramSources, 2);
    this.#exemplars = {
      slots: new Uint32Array(buffer, addressOf(kernel.exemplarSlots), exemplarsMax),
      generations: new Uint32Array(buffer, addressOf(kernel.exemplarGenerations), exemplarsMax),
      timestampNanos: new BigInt64Array(buffer, addressOf(kernel.exemplarTimes), exemplarsMax),
      valueEnds: new Uint32Array(buffer, addressOf(kernel.exemplarEnds), exemplarsMax),
      valueBytes: this.#bytes.subarray(addressOf(kernel.exemplarValues)),
      problems: new Uint8Array(buffer, addressOf(kernel.exemplarProblems), exemplarsMax),
    };
    this.#lineProblemWords = new Uint32Array(
      buffer,
      addressOf(kernel.lineProblems),
      lineProblemsMax * lineProblemWords,
    );
    this.#lineWords = new Uint32Array(
      buffer,
      addressOf(kernel.lineNumbers),
      lineNumbersMax * lineNumberWords,
    );
    this.#metadataEntries = new Uint32Array(
      buffer,
      addressOf(kernel.metadataEntries),
      metadataMax * metadataEntryWords,
    );
    this.idHash = new Uint32Array(buffer, kernel.idHash() >>> 0, slotsMax);
    this.generation = new Uint32Array(buffer, kernel.generation() >>> 0, slotsMax);
    this.refused = new Uint8Array(buffer, kernel.refused() >>> 0, slotsMax);
    this.idScheme = new Uint8Array(buffer, kernel.idScheme() >>> 0, slotsMax);
    for (const slot of [oversizeSlot, namelessSlot, unresolvedSlot]) this.refused[slot] = 1;
  }

  remoteWrite(body: Uint8Array, version: RemoteWriteVersion = 1): number {
    assert(body.length <= bodyBytesMax, 'the body fits its region');
    this.#bytes.set(body, this.#bodyAt);
    this.#hasOversizeRow = false;
    this.timeUnitNanos = 1_000_000;
    const outcome = this.#kernel.remoteWrite(body.length, version, this.#typeAndUnit);
    this.#rowCount = Math.max(outcome, 0);
    return outcome;
  }

  lines(pieces: readonly Uint8Array[], options: LineOptions): number {
    const { format, rowsMax, unitNanos, nowNanos } = options;
    const text = new TextOfPieces(pieces);
    assert(text.length <= lineBytesMax, 'a text is not longer than a line may be');
    this.#hasOversizeRow = false;
    this.#rowCount = 0;
    this.lineFeeds = 0;
    let problemCount = 0;
    const listed: LineProblem[] = [];
    const kernel = this.#kernel;
    let windowBytes = this.#lineWindowBytes;
    let at = 0;
    for (let isMore = 0; ; isMore = 1) {
      const length = text.copyTo(this.#bytes, this.#bodyAt, at, windowBytes);
      const isEnd = at + length === text.length;
      const isLast = options.isLast && isEnd ? 1 : 0;
      const read = kernel.lines(format, length, isMore, isLast, rowsMax, unitNanos, nowNanos);
      if (read < 0 && isMore === 0) return read;
      if (read < 0) break;
      this.#readLineNumbers();
      problemCount += this.#listLineProblems(at, listed);
      this.lineFeeds += kernel.lineFeeds(read);
      at += read;
      if (isEnd || kernel.linesAreEnough(rowsMax) !== 0) break;
      // A line that is longer.
      if (read === 0) windowBytes *= 4;
    }
    this.lineProblems = { count: problemCount, listed };
    this.#rowCount = kernel.lineRowCount();
    this.timeUnitNanos = kernel.rowTimesInMillis(this.#rowCount) === 0 ? 1 : 1_000_000;
    return at;
  }

  #readLineNumbers(): void {
    const numbers = this.#kernel.lineNumberCount();
    for (let place = 0; place < numbers; place++) {
      const [row, at, length] = this.#lineWords.subarray(lineNumberWords * place);
      const from = this.#bodyAt + at!;
      const number = Buffer.from(this.#bytes.subarray(from, from + length!));
      this.#rowValues[row!] = Number(number.toString('latin1'));
    }
  }

  /** @returns how many there are */
  #listLineProblems(before: number, listed: LineProblem[]): number {
    const count = this.#kernel.lineProblemCount();
    const left = lineProblemsMax - listed.length;
    for (let place = 0; place < Math.min(count, left); place++) {
      const [lineAt, at, reason] = this.#lineProblemWords.subarray(lineProblemWords * place);
      listed.push({ lineAt: before + lineAt!, at: before + at!, reason: reason! });
    }
    return count;
  }

  beginRows(): void {
    this.timeUnitNanos = 1;
    this.#rowCount = 0;
    this.#startCount = 0;
    this.#hasOversizeRow = false;
    this.#kernel.beginRows();
  }

  addRow(tags: Uint8Array, timestampNanos: bigint, value: number): number {
    assert(this.#rowCount < writeDecoderRowsMax, 'the rows fit their region');
    const slot = this.slotOf(tags);
    if (slot < 0) {
      this.#kernel.forgetNew();
      this.#rowCount = 0;
      return writeDecoderProblem.noRoom;
    }
    if (slot === oversizeSlot) this.#hasOversizeRow = true;
    this.#rowSlots[this.#rowCount] = slot;
    this.#rowGenerations[this.#rowCount] = this.generation[slot]!;
    this.#rowTimestamps[this.#rowCount] = timestampNanos;
    this.#rowValues[this.#rowCount] = value;
    this.#rowCount++;
    return 0;
  }

  slotOf(tags: Uint8Array): number {
    if (tags.length > tagsBytesMax) return oversizeSlot;
    this.#bytes.set(tags, this.#canonicalAt);
    const slot = this.#kernel.slotOfCanonical(tags.length);
    assert(slot !== writeDecoderProblem.malformed, 'canonical tags are whole');
    return slot;
  }

  use(slot: number, generation: number): boolean {
    return this.#kernel.useSlot(slot, generation) !== 0;
  }

  addSample(
    slot: number,
    timestampMillis: number,
    valueLow: number,
    valueHigh: number,
    startMillis: number,
  ): void {
    const row = this.#rowCount++;
    assert(row < writeDecoderRowsMax, 'the rows fit their region');
    if (slot === oversizeSlot) this.#hasOversizeRow = true;
    this.#rowSlots[row] = slot;
    this.#rowGenerations[row] = this.generation[slot]!;
    this.#rowTimeWords[2 * row] = timestampMillis;
    this.#rowTimeWords[2 * row + 1] = Math.floor(timestampMillis / 2 ** 32);
    this.#rowValueWords[2 * row] = valueLow;
    this.#rowValueWords[2 * row + 1] = valueHigh;
    if (startMillis === 0) return;
    // The product of the low word is exact: 52 bits.
    const low = (startMillis >>> 0) * nanosOfMilli;
    const high = Math.floor(startMillis / 2 ** 32) * nanosOfMilli + Math.floor(low / 2 ** 32);
    this.#rowStartWords[2 * row] = low;
    this.#rowStartWords[2 * row + 1] = high;
    this.#startCount = row + 1;
  }

  addPackedSamples(packed: Uint8Array): number {
    const count = packed.length / packedSampleBytes;
    assert(this.#rowCount + count <= writeDecoderRowsMax, 'the rows fit their region');
    this.#bytes.set(packed, this.#rawAt);
    const taken = this.#kernel.addPackedSamples(this.#rowCount, count);
    this.#rowCount += taken;
    if (this.#kernel.packedHaveStarts() !== 0) this.#startCount = this.#rowCount;
    return taken;
  }

  addSampleAt(slot: number, seconds: number, nanos: number, value: number): void {
    const row = this.#rowCount++;
    assert(row < writeDecoderRowsMax, 'the rows fit their region');
    if (slot === oversizeSlot) this.#hasOversizeRow = true;
    this.#rowSlots[row] = slot;
    this.#rowGenerations[row] = this.generation[slot]!;
    // In parts of which each product is exact: seconds are `high` times 2^16 and more, and these times 10^9 again.
    const high = Math.floor(seconds / 2 ** 16);
    const parts = high * nanosOfSecond;
    const highWord = Math.floor(parts / 2 ** 16);
    const rest = (parts - highWord * 2 ** 16) * 2 ** 16;
    const low = (seconds - high * 2 ** 16) * nanosOfSecond + nanos + rest;
    this.#rowTimeWords[2 * row] = low;
    this.#rowTimeWords[2 * row + 1] = highWord + Math.floor(low / 2 ** 32);
    this.#rowValues[row] = value;
  }

  addHistogram(slot: number, message: Uint8Array): string | null {
    assert(message.length <= rawBytesMax, 'the message fits its region');
    this.#bytes.set(message, this.#rawAt);
    const outcome = this.#kernel.addHistogram(message.length, slot, this.generation[slot]!);
    assert(outcome >= 0, 'a histogram is well-formed, and its rows are not too many');
    if (outcome !== 0) return histogramProblem(message, [0, message.length]) ?? '';
    if (slot === oversizeSlot) this.#hasOversizeRow = true;
    return null;
  }

  endRows(): void {
    this.timeUnitNanos = 1_000_000;
    this.#kernel.endRows(this.#rowCount, this.#startCount);
  }

  endRowsInNanos(): void {
    this.#kernel.endRows(this.#rowCount, 0);
    this.timeUnitNanos = this.#kernel.rowTimesInMillis(this.#rowCount) === 0 ? 1 : 1_000_000;
  }

  get rowCount(): number {
    return this.#rowCount;
  }

  get rowSlots(): Uint32Array {
    return this.#rowSlots.subarray(0, this.#rowCount);
  }

  get rowGenerations(): Uint32Array {
    return this.#rowGenerations.subarray(0, this.#rowCount);
  }

  get rowTimestamps(): BigInt64Array {
    return this.#rowTimestamps.subarray(0, this.#rowCount);
  }

  get rowValues(): Float64Array {
    return this.#rowValues.subarray(0, this.#rowCount);
  }

  get rowStartNanos(): BigInt64Array | null {
    return this.#kernel.startCount() === 0 ? null : this.#rowStarts.subarray(0, this.#rowCount);
  }

  get hasOversizeRows(): boolean {
    return this.#hasOversizeRow || this.#kernel.hasOversizeRows() !== 0;
  }

  get histograms(): HistogramColumns {
    const all = this.#histograms;
    const count = this.#kernel.histogramCount();
    const valueEnds = all.valueEnds.subarray(0, count);
    return {
      count,
      slots: all.slots.subarray(0, count),
      generations: all.generations.subarray(0, count),
      timestampsMillis: all.timestampsMillis.subarray(0, count),
      startNanos: all.startNanos.subarray(0, count),
      valueEnds,
      valueBytes: all.valueBytes.subarray(0, valueEnds.at(-1) ?? 0),
    };
  }

  histogramProblem(row: number): string {
    const start = this.#rawAt + this.#histogramSources[2 * row]!;
    const range = [start, start + this.#histogramSources[2 * row + 1]!] as const;
    return histogramProblem(this.#bytes, range) ?? '';
  }

  get firstNamelessSlot(): number {
    return this.#kernel.firstNameless();
  }

  get exemplars(): ExemplarColumns {
    const all = this.#exemplars;
    const count = this.#kernel.exemplarCount();
    const valueEnds = all.valueEnds.subarray(0, count);
    return {
      count,
      slots: all.slots.subarray(0, count),
      generations: all.generations.subarray(0, count),
      timestampNanos: all.timestampNanos.subarray(0, count),
      valueEnds,
      valueBytes: all.valueBytes.subarray(0, valueEnds.at(-1) ?? 0),
      problems: all.problems.subarray(0, count),
      leftOutCount: this.#kernel.exemplarsLeftOut(),
    };
  }

  get metadata(): MetadataColumns {
    const entries = this.#metadataEntries;
    const bytes = this.#bytes;
    const at = (row: number, index: number): number => entries[row * metadataEntryWords + index]!;
    const text = (row: number, index: number): Uint8Array => {
      const start = at(row, index);
      return bytes.subarray(start, start + at(row, index + 1));
    };
    return {
      count: this.#kernel.metadataCount(),
      slot: (row) => at(row, 0),
      generation: (row) => at(row, 1),
      type: (row) => at(row, 2),
      isUnresolved: (row) => at(row, 3) !== 0,
      hash: (row) => at(row, 4) * 2 ** 21 + (at(row, 5) >>> 11),
      name: (row) => text(row, 6),
      help: (row) => text(row, 8),
      unit: (row) => text(row, 10),
      leftOutCount: this.#kernel.metadataLeftOut(),
    };
  }

  get newSlots(): Uint32Array {
    return this.#newSlots.subarray(0, this.#kernel.newCount());
  }

  judgePlain(plainQuoted: boolean): number {
    return this.#kernel.judgePlain(plainQuoted ? 1 : 0);
  }

  forgetNew(): void {
    this.#kernel.forgetNew();
    this.#rowCount = 0;
  }

  tags(slot: number): Uint8Array {
    const length = this.#kernel.tags(slot);
    return this.#bytes.subarray(this.#canonicalAt, this.#canonicalAt + length);
  }

  tagBytes(slot: number): number {
    return this.#kernel.tags(slot);
  }

  tagsOfAll(slots: Uint32Array): { tags: Uint8Array; ends: Uint32Array } {
    const ends = new Uint32Array(slots.length);
    const parts: Uint8Array[] = [];
    let length = 0;
    // The regions of the body, which was read, take the slots and then their ends, and the tags.
    for (let from = 0; from < slots.length; ) {
      const some = slots.subarray(from, from + entriesAtOnce);
      const words = new Uint32Array(this.#bytes.buffer, this.#bodyAt, some.length);
      words.set(some);
      const done = this.#kernel.tagsOfAll(some.length);
      assert(done > 0, 'there is room for the tags of one series');
      for (let i = 0; i < done; i++) ends[from + i] = length + words[i]!;
      const partLength = words[done - 1]!;
      parts.push(this.#bytes.slice(this.#rawAt, this.#rawAt + partLength));
      length += partLength;
      from += done;
    }
    return { tags: joined(parts, length), ends };
  }

  get seriesCount(): number {
    return this.#kernel.liveCount();
  }

  get memoryBytes(): number {
    return this.#kernel.touchedBytes();
  }
}

function joined(parts: readonly Uint8Array[], length: number): Uint8Array {
  if (parts.length === 1) return parts[0]!;
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Of an exported constant. */
function addressOf({ value }: { readonly value: number }): number {
  return value >>> 0;
}
