/**
 * The plain twin of the write decoder kernel: a map from canonical tags to slots. It evicts
 * nothing.
 */
import { murmur3 } from '#lib/hashing/hash.ts';
import { decodeTags, tagsBytesMax, tagsCountMax } from '#lib/tags.ts';
import {
  type ExemplarColumns,
  exemplarsMax,
  type MetadataColumns,
  metadataMax,
  type HistogramColumns,
  histogramBytesMax,
  histogramsMax,
  type LineOptions,
  type LineProblems,
  type WriteDecoderCore,
  type RemoteWriteVersion,
  writeDecoderProblem,
  writeDecoderRowsMax,
  namelessSlot,
  oversizeSlot,
  rawBytesMax,
  packedSampleBytes,
} from './core.ts';
import type { WireExemplar } from './exemplar_twin.ts';
import type { WireMetadata } from './metadata_twin.ts';
import { idOfTags } from '#lib/series_id/from_tags.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { CarbonTwin } from './lines/carbon_twin.ts';
import { ExpositionTwin } from './lines/exposition_twin.ts';
import { InfluxTwin } from './lines/influx_twin.ts';
import { LinesOfTwin, type LineTwin } from './lines/line_twin.ts';
import type { LineProblem } from './lines/problems.ts';
import {
  formatCarbon,
  formatCarbonCleanedUp,
  formatInflux,
  formatOpenMetrics,
  lineProblemsMax,
  newTagBytesAtOnce,
} from './lines/layout.ts';
import { type HistogramAt, parseWriteRequest } from './remote_write_twin.ts';
import { parseWriteRequestV2 } from './remote_write_v2_twin.ts';
import { decodeSnappyTwin } from './snappy_twin.ts';
import { histogramProblem, readHistogram, valueOrNull } from './wire_histogram.ts';

/** `oversizeSlot` and the two after it. */
const refusedSlots = 3;
/** Of a NaN that is none of Prometheus' markers; no other one is in a text. */
const nanBits = 0x7ff8_0000_0000_0001n;

export class WriteDecoderTwin implements WriteDecoderCore {
  readonly #slotOf = new Map<string, number>();
  readonly #tags: Uint8Array[] = Array.from({ length: refusedSlots }, () => new Uint8Array(0));
  #rows: { slot: number; timestamp: bigint; bits: bigint; startNanos: bigint | null }[] = [];
  #newSlots: number[] = [];
  #lineProblems: LineProblem[] = [];
  lineFeeds = 0;
  timeUnitNanos: 1_000_000 | 1 = 1;
  readonly #free: number[] = [];
  readonly #paths = new Set<number>();
  #tagsBytes = 0;
  #histograms: { slot: number; at: HistogramAt; value: Uint8Array | null }[] = [];
  #raw: Uint8Array = new Uint8Array(0);
  #exemplars: { slot: number; exemplar: WireExemplar }[] = [];
  #exemplarsLeftOut = 0;
  firstNamelessSlot = 0;
  #metadata: { slot: number; metadata: WireMetadata }[] = [];
  idHash: Uint32Array = new Uint32Array(refusedSlots);
  generation: Uint32Array = new Uint32Array(refusedSlots).fill(1);
  refused: Uint8Array = new Uint8Array(refusedSlots).fill(1);
  idScheme: Uint8Array = new Uint8Array(refusedSlots);

  readonly #typeAndUnitLabels: boolean;

  constructor(typeAndUnitLabels: boolean = false) {
    this.#typeAndUnitLabels = typeAndUnitLabels;
  }

  remoteWrite(body: Uint8Array, version: RemoteWriteVersion = 1): number {
    this.beginRows();
    const raw = decodeSnappyTwin(body, rawBytesMax);
    if (typeof raw === 'number') return raw;
    this.timeUnitNanos = 1_000_000;
    const request =
      version === 2 ? parseWriteRequestV2(raw, this.#typeAndUnitLabels) : parseWriteRequest(raw);
    if (request === null) return writeDecoderProblem.malformed;
    if (typeof request === 'number') return request;
    let rowCount = 0;
    for (const { timestampsMillis } of request.series) rowCount += timestampsMillis.length;
    if (rowCount > writeDecoderRowsMax) return writeDecoderProblem.tooManyRows;
    const values = request.series.flatMap(({ histograms }) =>
      histograms.map(({ histogram }) => valueOrNull(histogram)),
    );
    const bytes = values.reduce((sum, value) => sum + (value?.length ?? 0), 0);
    if (values.length > histogramsMax || bytes > histogramBytesMax) {
      return writeDecoderProblem.tooManyHistograms;
    }
    this.#raw = raw;
    for (const metadata of request.families) this.#addMetadata(0, metadata);
    for (const series of request.series) {
      const { tags, timestampsMillis, valueBits, startNanos, histograms, exemplars } = series;
      if (!series.hasContent) continue;
      const slot = series.refusedSlot ?? this.#slot(tags!);
      if (slot === namelessSlot && this.firstNamelessSlot === 0 && tags !== null) {
        this.firstNamelessSlot = this.#slot(tags);
      }
      for (const exemplar of exemplars) this.#addExemplar(slot, exemplar);
      for (const metadata of series.metadata) this.#addMetadata(slot, metadata);
      timestampsMillis.forEach((timestamp, i) =>
        this.#rows.push({ slot, timestamp, bits: valueBits[i]!, startNanos: startNanos[i]! }),
      );
      for (const at of histograms) {
        this.#histograms.push({ slot, at, value: values[this.#histograms.length]! });
      }
    }
    return rowCount;
  }

  #addExemplar(slot: number, exemplar: WireExemplar): void {
    if (this.#exemplars.length === exemplarsMax) this.#exemplarsLeftOut += 1;
    else this.#exemplars.push({ slot, exemplar });
  }

  #addMetadata(slot: number, metadata: WireMetadata): void {
    if (this.#metadata.length < metadataMax) this.#metadata.push({ slot, metadata });
  }

  lines(pieces: readonly Uint8Array[], options: LineOptions): number {
    const text = Buffer.concat(pieces);
    const { isLast, rowsMax } = options;
    this.beginRows();
    const characters = Buffer.from(text).toString('latin1');
    const lines = new LinesOfTwin(twinOf(characters, options), characters, isLast);
    let newTagBytes = 0;
    while (this.#rows.length < rowsMax && newTagBytes < newTagBytesAtOnce) {
      const line = lines.next();
      if (line === null) break;
      if ('reason' in line || typeof line.outcome === 'number') {
        this.#lineProblems.push(line as LineProblem);
        continue;
      }
      const { rows, tagBytes } = line.outcome;
      for (const { tags, isPath, nanos, value } of rows) {
        const newBefore = this.#newSlots.length;
        this.#add(this.#slot(tags, isPath), nanos, Number.isNaN(value) ? nanBits : bitsOf(value));
        if (this.#newSlots.length > newBefore) newTagBytes += tagBytes;
      }
    }
    this.endRowsInNanos();
    this.lineFeeds = text.subarray(0, lines.at).filter((byte) => byte === 0x0a).length;
    return lines.at;
  }

  get lineProblems(): LineProblems {
    const all = this.#lineProblems;
    return { count: all.length, listed: all.slice(0, lineProblemsMax) };
  }

  beginRows(): void {
    this.timeUnitNanos = 1;
    this.#lineProblems = [];
    this.firstNamelessSlot = 0;
    this.#exemplars = [];
    this.#exemplarsLeftOut = 0;
    this.#metadata = [];
    this.#rows = [];
    this.#newSlots = [];
    this.#histograms = [];
  }

  addRow(tags: Uint8Array, timestampNanos: bigint, value: number): number {
    this.#add(this.slotOf(tags), timestampNanos, bitsOf(value));
    return 0;
  }

  slotOf(tags: Uint8Array): number {
    const fits = tags.length <= tagsBytesMax && decodeTags(tags).length <= tagsCountMax;
    return fits ? this.#slot(tags) : oversizeSlot;
  }

  use(slot: number, generation: number): boolean {
    return slot < this.#tags.length && this.generation[slot] === generation;
  }

  addSample(
    slot: number,
    timestampMillis: number,
    valueLow: number,
    valueHigh: number,
    startMillis: number,
  ): void {
    this.#rows.push({
      slot,
      timestamp: BigInt(timestampMillis),
      bits: (BigInt(valueHigh) << 32n) | BigInt(valueLow),
      startNanos: startMillis === 0 ? null : BigInt(startMillis) * 1_000_000n,
    });
  }

  addPackedSamples(packed: Uint8Array): number {
    const view = new DataView(packed.buffer, packed.byteOffset, packed.length);
    for (let at = 0; at < packed.length; at += packedSampleBytes) {
      const slot = view.getUint32(at, true);
      if (!this.use(slot, view.getUint32(at + 4, true))) return at / packedSampleBytes;
      const startNanos = view.getBigInt64(at + 24, true);
      this.#rows.push({
        slot,
        timestamp: view.getBigInt64(at + 8, true),
        bits: view.getBigUint64(at + 16, true),
        startNanos: startNanos === 0n ? null : startNanos,
      });
    }
    return packed.length / packedSampleBytes;
  }

  addHistogram(slot: number, message: Uint8Array): string | null {
    const range = [0, message.length] as const;
    const histogram = readHistogram(message, range, true);
    const value = valueOrNull(histogram);
    if (value === null) return histogramProblem(message, range) ?? '';
    this.#histograms.push({ slot, at: { range, histogram }, value });
    return null;
  }

  endRows(): void {
    this.timeUnitNanos = 1_000_000;
  }

  addSampleAt(slot: number, seconds: number, nanos: number, value: number): void {
    this.#add(slot, BigInt(seconds) * 1_000_000_000n + BigInt(nanos), bitsOf(value));
  }

  endRowsInNanos(): void {
    if (this.#rows.some(({ timestamp }) => timestamp % 1_000_000n !== 0n)) return;
    this.timeUnitNanos = 1_000_000;
    for (const row of this.#rows) row.timestamp /= 1_000_000n;
  }

  #add(slot: number, timestamp: bigint, bits: bigint): void {
    this.#rows.push({ slot, timestamp, bits, startNanos: null });
  }

  get rowCount(): number {
    return this.#rows.length;
  }

  get rowSlots(): Uint32Array {
    return Uint32Array.from(this.#rows, (row) => row.slot);
  }

  get rowGenerations(): Uint32Array {
    return Uint32Array.from(this.#rows, ({ slot }) => this.generation[slot]!);
  }

  get rowTimestamps(): BigInt64Array {
    return BigInt64Array.from(this.#rows, (row) => row.timestamp);
  }

  get rowValues(): Float64Array {
    return new Float64Array(BigUint64Array.from(this.#rows, (row) => row.bits).buffer);
  }

  get rowStartNanos(): BigInt64Array | null {
    if (this.#rows.every(({ startNanos }) => startNanos === null)) return null;
    return BigInt64Array.from(this.#rows, ({ startNanos }) => startNanos ?? 0n);
  }

  get hasOversizeRows(): boolean {
    const all = [...this.#rows, ...this.#histograms, ...this.#exemplars];
    return all.some(({ slot }) => slot < refusedSlots);
  }

  get histograms(): HistogramColumns {
    const all = this.#histograms;
    const values = all.map(({ value }) => value ?? new Uint8Array(0));
    let end = 0;
    return {
      count: all.length,
      slots: Uint32Array.from(all, ({ slot }) => slot),
      generations: Uint32Array.from(all, ({ slot }) => this.generation[slot]!),
      timestampsMillis: BigInt64Array.from(all, ({ at }) => at.histogram.timestampMillis),
      startNanos: BigInt64Array.from(all, ({ at }) => at.histogram.startNanos),
      valueEnds: Uint32Array.from(values, ({ length }) => (end += length)),
      valueBytes: new Uint8Array(Buffer.concat(values)),
    };
  }

  histogramProblem(row: number): string {
    return histogramProblem(this.#raw, this.#histograms[row]!.at.range) ?? '';
  }

  get exemplars(): ExemplarColumns {
    const all = this.#exemplars;
    let end = 0;
    return {
      count: all.length,
      slots: Uint32Array.from(all, ({ slot }) => slot),
      generations: Uint32Array.from(all, ({ slot }) => this.generation[slot]!),
      timestampNanos: BigInt64Array.from(all, ({ exemplar }) => exemplar.nanos),
      valueEnds: Uint32Array.from(all, ({ exemplar }) => (end += exemplar.value.length)),
      valueBytes: new Uint8Array(Buffer.concat(all.map(({ exemplar }) => exemplar.value))),
      problems: Uint8Array.from(all, ({ exemplar }) => exemplar.problem),
      leftOutCount: this.#exemplarsLeftOut,
    };
  }

  get metadata(): MetadataColumns {
    const all = this.#metadata;
    const of = (row: number): WireMetadata => all[row]!.metadata;
    return {
      count: all.length,
      slot: (row) => all[row]!.slot,
      generation: (row) => this.generation[all[row]!.slot]!,
      type: (row) => of(row).type,
      isUnresolved: (row) => of(row).isUnresolved,
      hash: (row) => murmur3(Buffer.concat([of(row).name, of(row).help, of(row).unit])),
      name: (row) => of(row).name,
      help: (row) => of(row).help,
      unit: (row) => of(row).unit,
      leftOutCount: 0,
    };
  }

  get newSlots(): Uint32Array {
    return Uint32Array.from(this.#newSlots);
  }

  /** But for paths the twin leaves all verdicts to the rules. */
  judgePlain(_plainQuoted: boolean): number {
    const [paths, others] = [true, false].map((isPath) =>
      this.#newSlots.filter((slot) => this.#paths.has(slot) === isPath),
    );
    for (const slot of paths!) {
      const path = idOfTags(decodeTags(this.#tags[slot]!), 'path');
      this.idHash[slot] = murmur3(Buffer.from(path));
      this.idScheme[slot] = idSchemeCode.path;
    }
    this.#newSlots = [...others!, ...paths!];
    return others!.length;
  }

  forgetNew(): void {
    for (const slot of this.#newSlots) {
      this.#slotOf.delete(keyOf(this.#tags[slot]!, this.#paths.has(slot)));
      this.#tagsBytes -= this.#tags[slot]!.length;
      this.#free.push(slot);
    }
    this.#newSlots = [];
    this.#histograms = [];
    this.#exemplars = [];
    this.#metadata = [];
    this.firstNamelessSlot = 0;
  }

  tags(slot: number): Uint8Array {
    return this.#tags[slot]!;
  }

  tagBytes(slot: number): number {
    return this.#tags[slot]!.length;
  }

  tagsOfAll(slots: Uint32Array): { tags: Uint8Array; ends: Uint32Array } {
    const all = Array.from(slots, (slot) => this.#tags[slot]!);
    let end = 0;
    const ends = Uint32Array.from(all, (tags) => (end += tags.length));
    return { tags: new Uint8Array(Buffer.concat(all)), ends };
  }

  get seriesCount(): number {
    return this.#slotOf.size;
  }

  get memoryBytes(): number {
    return this.#tagsBytes;
  }

  /** @param isPath a path is another series than one whose labels look like its tags */
  #slot(tags: Uint8Array, isPath = false): number {
    const key = keyOf(tags, isPath);
    const known = this.#slotOf.get(key);
    if (known !== undefined) return known;
    const slot = this.#free.pop() ?? this.#tags.length;
    if (slot === this.idHash.length) this.#grow();
    this.#tags[slot] = new Uint8Array(tags);
    this.#tagsBytes += tags.length;
    this.#slotOf.set(key, slot);
    this.#newSlots.push(slot);
    if (isPath) this.#paths.add(slot);
    else this.#paths.delete(slot);
    this.generation[slot]!++;
    this.refused[slot] = 0;
    return slot;
  }

  #grow(): void {
    const size = this.idHash.length * 2;
    const wider = <Column extends Uint32Array | Uint8Array>(grown: Column, old: Column): Column => {
      grown.set(old);
      return grown;
    };
    this.idHash = wider(new Uint32Array(size), this.idHash);
    this.generation = wider(new Uint32Array(size), this.generation);
    this.refused = wider(new Uint8Array(size), this.refused);
    this.idScheme = wider(new Uint8Array(size), this.idScheme);
  }
}

function twinOf(text: string, options: LineOptions): LineTwin {
  const { format, isLast, unitNanos, nowNanos } = options;
  if (format === formatInflux) return new InfluxTwin(text, isLast, unitNanos, nowNanos);
  if (format === formatCarbon || format === formatCarbonCleanedUp) {
    return new CarbonTwin(text, nowNanos, format === formatCarbonCleanedUp);
  }
  return new ExpositionTwin(text, nowNanos, format === formatOpenMetrics);
}

function bitsOf(value: number): bigint {
  return new BigUint64Array(Float64Array.of(value).buffer)[0]!;
}

function keyOf(tags: Uint8Array, isPath: boolean): string {
  return (
    (isPath ? 'path ' : 'tags ') +
    Buffer.from(tags.buffer, tags.byteOffset, tags.length).toString('latin1')
  );
}
