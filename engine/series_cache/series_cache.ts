/**
 * What was made of bytes that came before is known by digests of these bytes (kernel/digest.ts), below what they belong to: resources, scopes, metrics and series of
 * OTLP, metrics of lines of JSON. What came before costs a comparison, mostly with the one that followed its predecessor last time.
 */
import { assert } from '#lib/assert.ts';
import { compileWasmFile } from '#lib/env/wasm.ts';
import type { Random } from '#lib/env/env.ts';
import { packedSampleBytes } from '../write_decoder/core.ts';
import type { SeriesCacheExports } from './series_cache_exports.ts';

/** Words of an entry, whose number is the place of its first word. */
const slotsWord = 5;
const countWord = 6;

const pageBytes: number = 64 << 10;
const memoryPagesMax: number = 64 << 10;
/** Memory grows by so much at least. */
const growthBytes: number = 1 << 20;
const keyBytesMax = 65_535;
/** Of a body, what is walked at once. */
const windowBytes: number = 64 << 10;
/** Loads and stores may go beyond the end of what they are of. */
const slackBytes = 256;
/** A point of a number has more bytes than 20. */
const pointsAtOnce = 4096;
/** No entry takes less: the table has a place for each. */
const entryBytesMin = 52;
/** Keys that are shorter are put into a block. */
const blockBytes = 16;
const tableWordsMin = 1024;

const compiled = compileWasmFile(new URL('../build/series_cache.wasm', import.meta.url));

export class SeriesCache {
  readonly #bytesMax: number;
  readonly #memory = new WebAssembly.Memory({ initial: 16, maximum: memoryPagesMax });
  readonly #kernel: SeriesCacheExports;
  readonly #keyAt: number;
  readonly #windowAt: number;
  readonly #rowsAt: number;
  readonly #endsAt: number;
  readonly #firstEntry: number;
  /** Of all that is used. */
  #end = pageBytes;
  #bytes = new Uint8Array(0);
  #words = new Uint32Array(0);
  /** What is in the window. */
  #body: Uint8Array | null = null;
  #bodyFrom = 0;
  #bodyTo = 0;

  /** @param bytesMax of what is known, about */
  constructor(random: Pick<Random, 'bytes'>, bytesMax: number) {
    this.#bytesMax = bytesMax;
    const { exports } = new WebAssembly.Instance(compiled, { env: { memory: this.#memory } });
    this.#kernel = exports as unknown as SeriesCacheExports;
    this.#keyAt = this.#room(keyBytesMax);
    this.#windowAt = this.#room(windowBytes);
    this.#rowsAt = this.#room(packedSampleBytes * pointsAtOnce);
    this.#endsAt = this.#room(4 * pointsAtOnce);
    const words = Math.max(tableWordsMin, 2 ** Math.ceil(Math.log2(bytesMax / entryBytesMin)));
    const table = this.#room(4 * words);
    const root = this.#room(this.#kernel.entryBytes.value);
    const randomBytes = this.#kernel.randomBytes(keyBytesMax);
    const randomAt = this.#room(randomBytes);
    const shortAt = this.#room(blockBytes);
    this.#firstEntry = this.#end;
    this.#bytes.set(random.bytes(randomBytes), randomAt);
    const areas = [this.#keyAt, table, words, root, randomAt, shortAt] as const;
    this.#kernel.init(...areas, this.#rowsAt, this.#endsAt);
  }

  get bytes(): number {
    return this.#memory.buffer.byteLength;
  }

  /** Forgets all when there is too much: entries hold until the next call. @returns whether it has */
  makeRoom(): boolean {
    if (this.#end - this.#firstEntry < this.#bytesMax) return false;
    this.#kernel.clearEntries();
    this.#end = this.#firstEntry;
    return true;
  }

  /** A walk begins: what is asked for first followed nothing. */
  begin(): void {
    this.#kernel.beginEntries();
  }

  /** A walk ends, or pauses. */
  end(): void {
    this.#body = null;
  }

  /**
   * Entry of the bytes in [start, end), of which there are 65,535 at most, below `parent`; 0 when there is none, which `add` may
   * make then.
   * @param extra what else tells it apart, a word
   */
  find(view: DataView, parent: number, extra: number, start: number, end: number): number {
    const length = end - start;
    assert(length <= keyBytesMax, 'what is known by its bytes has not too many');
    this.#bytes.set(new Uint8Array(view.buffer, view.byteOffset + start, length), this.#keyAt);
    return this.#kernel.find(parent, extra, length) >>> 0;
  }

  /** Entry of what `find` has just not found. */
  add(parent: number, extra: number, length: number): number {
    const entry = this.#room(this.#kernel.entryBytes.value);
    this.#kernel.add(entry, parent, extra, length);
    return entry / 4;
  }

  /** Room for the slots of the series of an entry, which `setSlot` says. */
  reserveSlots(entry: number, count: number): void {
    const at = this.#room(8 * count) / 4;
    const words = this.#words;
    words[entry + slotsWord] = at;
    words[entry + countWord] = count;
    // What stands there is of entries that are forgotten.
    words.fill(0, at, at + 2 * count);
  }

  slotCount(entry: number): number {
    return this.#words[entry + countWord]!;
  }

  setSlot(entry: number, index: number, slot: number, generation: number): void {
    const words = this.#words;
    const at = words[entry + slotsWord]! + 2 * index;
    words[at] = slot;
    words[at + 1] = generation;
  }

  slot(entry: number, index: number): number {
    const words = this.#words;
    return words[words[entry + slotsWord]! + 2 * index]!;
  }

  generation(entry: number, index: number): number {
    const words = this.#words;
    return words[words[entry + slotsWord]! + 2 * index + 1]!;
  }

  /**
   * Reads points of numbers in [at, end) of a body, each a field of the data of its metric, as far as they are as most are and
   * their series are known; slots may have gone to other series.
   * @param withStarts else they have no start times
   * @returns how many: what is told of them holds until the next call
   */
  numbers(
    body: Uint8Array,
    at: number,
    end: number,
    metricEntry: number,
    withStarts: boolean,
    pointsMax: number,
  ): number {
    const max = Math.min(pointsMax, pointsAtOnce);
    if (body !== this.#body || at < this.#bodyFrom || at >= this.#bodyTo) this.#load(body, at);
    const count = this.#take(at, end, metricEntry, withStarts, max);
    const isCut = this.#kernel.isCut() !== 0 && at > this.#bodyFrom && end > this.#bodyTo;
    if (count > 0 || !isCut) return count;
    this.#load(body, at);
    return this.#take(at, end, metricEntry, withStarts, max);
  }

  /** The first ones of the points that were read, as the write decoder takes them. */
  packedSamples(count: number): Uint8Array {
    return this.#bytes.subarray(this.#rowsAt, this.#rowsAt + packedSampleBytes * count);
  }

  /** Where in the body one of them ends. */
  endOfNumber(point: number): number {
    return this.#words[this.#endsAt / 4 + point]! - this.#windowAt + this.#bodyFrom;
  }

  /** The first and the last time of them, where there are any. */
  get earliestMillis(): number {
    return this.#kernel.earliestMillis();
  }

  get latestMillis(): number {
    return this.#kernel.latestMillis();
  }

  #load(body: Uint8Array, at: number): void {
    const window = body.subarray(at, at + windowBytes);
    this.#bytes.set(window, this.#windowAt);
    this.#body = body;
    this.#bodyFrom = at;
    this.#bodyTo = at + window.length;
  }

  #take(at: number, end: number, entry: number, withStarts: boolean, max: number): number {
    const before = this.#windowAt - this.#bodyFrom;
    const past = before + Math.min(end, this.#bodyTo);
    return this.#kernel.numbers(before + at, past, entry, withStarts ? 1 : 0, max);
  }

  /** Address of so many bytes, which the memory has. */
  #room(bytes: number): number {
    const at = this.#end;
    this.#end = Math.ceil((at + bytes) / 8) * 8;
    const missing = this.#end + slackBytes - this.#memory.buffer.byteLength;
    if (missing > 0) this.#memory.grow(Math.ceil(Math.max(missing, growthBytes) / pageBytes));
    if (missing > 0 || this.#bytes.length === 0) {
      this.#bytes = new Uint8Array(this.#memory.buffer);
      this.#words = new Uint32Array(this.#memory.buffer);
    }
    return at;
  }
}
