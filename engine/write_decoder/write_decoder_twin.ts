/**
 * The plain twin of the write decoder kernel: a map from canonical tags to slots. It evicts
 * nothing.
 */
import { decodeTags, tagsBytesMax } from '#lib/tags.ts';
import {
  type HistogramColumns,
  histogramBytesMax,
  histogramsMax,
  type WriteDecoderCore,
  type RemoteWriteVersion,
  writeDecoderProblem,
  writeDecoderRowsMax,
  oversizeSlot,
  rawBytesMax,
  tagsCountMax,
} from './core.ts';
import { type HistogramAt, parseWriteRequest } from './remote_write_twin.ts';
import { parseWriteRequestV2 } from './remote_write_v2_twin.ts';
import { decodeSnappyTwin } from './snappy_twin.ts';
import { histogramProblem, valueOrNull } from './wire_histogram.ts';

export class WriteDecoderTwin implements WriteDecoderCore {
  readonly #slotOf = new Map<string, number>();
  readonly #tags: Uint8Array[] = [new Uint8Array(0)];
  #rows: { slot: number; timestamp: bigint; bits: bigint; startNanos: bigint | null }[] = [];
  #newSlots: number[] = [];
  readonly #free: number[] = [];
  #tagsBytes = 0;
  #histograms: { slot: number; at: HistogramAt; value: Uint8Array | null }[] = [];
  #raw: Uint8Array = new Uint8Array(0);
  idHash: Uint32Array = new Uint32Array(1);
  generation: Uint32Array = new Uint32Array(1).fill(1);
  refused: Uint8Array = new Uint8Array(1).fill(1);
  idScheme: Uint8Array = new Uint8Array(1);

  remoteWrite(body: Uint8Array, version: RemoteWriteVersion = 1): number {
    this.beginRows();
    const raw = decodeSnappyTwin(body, rawBytesMax);
    if (typeof raw === 'number') return raw;
    const request = version === 2 ? parseWriteRequestV2(raw) : parseWriteRequest(raw);
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
    for (const { tags, timestampsMillis, valueBits, startNanos, histograms } of request.series) {
      if (timestampsMillis.length + histograms.length === 0) continue;
      const slot = tags === null ? oversizeSlot : this.#slot(tags);
      timestampsMillis.forEach((timestamp, i) =>
        this.#rows.push({ slot, timestamp, bits: valueBits[i]!, startNanos: startNanos[i]! }),
      );
      for (const at of histograms) {
        this.#histograms.push({ slot, at, value: values[this.#histograms.length]! });
      }
    }
    return rowCount;
  }

  beginRows(): void {
    this.#rows = [];
    this.#newSlots = [];
    this.#histograms = [];
  }

  addRow(tags: Uint8Array, timestampNanos: bigint, value: number): number {
    const fits = tags.length <= tagsBytesMax && decodeTags(tags).length <= tagsCountMax;
    const slot = fits ? this.#slot(tags) : oversizeSlot;
    const bits = new BigUint64Array(new Float64Array([value]).buffer)[0]!;
    this.#rows.push({ slot, timestamp: timestampNanos, bits, startNanos: null });
    return 0;
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
    return [...this.#rows, ...this.#histograms].some(({ slot }) => slot === oversizeSlot);
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

  get newSlots(): Uint32Array {
    return Uint32Array.from(this.#newSlots);
  }

  /** The twin leaves all verdicts to the rules. */
  judgePlainQuoted(): number {
    return this.#newSlots.length;
  }

  forgetNew(): void {
    for (const slot of this.#newSlots) {
      this.#slotOf.delete(keyOf(this.#tags[slot]!));
      this.#tagsBytes -= this.#tags[slot]!.length;
      this.#free.push(slot);
    }
    this.#newSlots = [];
    this.#histograms = [];
  }

  tags(slot: number): Uint8Array {
    return this.#tags[slot]!;
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

  #slot(tags: Uint8Array): number {
    const key = keyOf(tags);
    const known = this.#slotOf.get(key);
    if (known !== undefined) return known;
    const slot = this.#free.pop() ?? this.#tags.length;
    if (slot === this.idHash.length) this.#grow();
    this.#tags[slot] = new Uint8Array(tags);
    this.#tagsBytes += tags.length;
    this.#slotOf.set(key, slot);
    this.#newSlots.push(slot);
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

function keyOf(tags: Uint8Array): string {
  return Buffer.from(tags.buffer, tags.byteOffset, tags.length).toString('latin1');
}
