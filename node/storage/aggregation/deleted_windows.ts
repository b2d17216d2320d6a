/**
 * Windows of a series of which something was deleted: each says the version of the last deletion that it was made without,
 * so that it stays before those that replicas made of what is gone; and one of which nothing is left says that, where its time
 * is not deleted itself (docs/AGGREGATION.md). By columns, for a slice may have tens of thousands.
 */
import type { SeriesFold } from '#engine/aggregation/series_fold.ts';
import { apart, mergeTyped } from '#engine/store/typed_chunks.ts';
import { allTimes } from '#engine/store/workshop.ts';
import { encodeTypedRows } from '#engine/typed/codec.ts';
import { type TypedColumns, TypedColumnsReader } from '#engine/typed/columns.ts';
import { valueKind } from '#engine/typed/typed_value.ts';
import { emptyWindow, valueOfWindow, windowField } from '#engine/typed/window.ts';
import { versionAtNanos } from '#lib/hybrid_clock.ts';
import type { Slice } from './slices.ts';

/** Of so many fields a chunk has no more than it may have. */
const chunkWindowsMax = 2_048;

/** Of a deletion, what it says to windows of a series that it is about. */
export interface DeletedRange extends Slice {
  readonly version: number;
}

/** Numbers of windows in a slice, by their ends. */
class WindowNumbers {
  readonly count: number;
  readonly #startNanos: bigint;
  readonly #resolutionNanos: bigint;
  /** As numbers, for who goes over many. */
  readonly #resolution: number;
  readonly #startLow: number;
  readonly #startHigh: number;

  constructor({ startNanos, endNanos }: Slice, resolutionNanos: bigint) {
    this.count = Number((endNanos - startNanos) / resolutionNanos);
    this.#startNanos = startNanos;
    this.#resolutionNanos = resolutionNanos;
    this.#resolution = Number(resolutionNanos);
    [this.#startLow, this.#startHigh] = [
      Number(BigInt.asUintN(32, startNanos)),
      Number(startNanos >> 32n),
    ];
  }

  endNanos(number: number): bigint {
    return this.#startNanos + BigInt(number) * this.#resolutionNanos;
  }

  /** The first that ends at or after a time; `count` when none does. */
  firstFrom(nanos: bigint): number {
    const missing = nanos - this.#startNanos + this.#resolutionNanos - 1n;
    if (missing < 0n) return 0;
    const number = missing / this.#resolutionNanos;
    return number < BigInt(this.count) ? Number(number) : this.count;
  }

  /** -1 where no window of the slice ends at that time, which is given in words. */
  of(low: number, high: number): number {
    const nanos = (high - this.#startHigh) * 2 ** 32 + (low - this.#startLow);
    const number = nanos / this.#resolution;
    return number >= 0 && number < this.count && Number.isInteger(number) ? number : -1;
  }
}

/** What is used for one series after the other of a slice. */
export class DeletedWindows {
  readonly #numbers: WindowNumbers;
  /** By number of the window: version of the last deletion that touches it, of those that are known now. */
  readonly #touched: Float64Array;
  /** And of those that a window of before was made without. */
  readonly #known: Float64Array;
  /** Those of before that a deletion touches, and of which nothing was made now. */
  readonly #isGone: Uint8Array;

  constructor(slice: Slice, resolutionNanos: bigint) {
    this.#numbers = new WindowNumbers(slice, resolutionNanos);
    const { count } = this.#numbers;
    this.#touched = new Float64Array(count);
    this.#known = new Float64Array(count);
    this.#isGone = new Uint8Array(count);
  }

  /**
   * @param fold that has the windows which were made now
   * @param before those that the aggregated namespace has of the series, as typed chunks
   * @param deletions about the series, by ascending version
   * @param resolutionNanos of the windows
   * @returns typed chunks
   */
  chunks(
    fold: Pick<SeriesFold, 'endNanos' | 'chunks'>,
    before: readonly Uint8Array[],
    deletions: readonly DeletedRange[],
    resolutionNanos: bigint,
  ): Uint8Array {
    this.#touch(deletions, resolutionNanos);
    this.#readBefore(before);
    const versions = this.#versionsOf(fold.endNanos);
    const gone = this.#chunksOfGone();
    if (versions.length === 0) return new Uint8Array(Buffer.concat(gone));
    const made = fold.chunks(versions);
    return gone.length === 0 ? made : mergeTyped(apart([made, ...gone]).typed, allTimes);
  }

  #touch(deletions: readonly DeletedRange[], resolutionNanos: bigint): void {
    this.#touched.fill(0);
    for (const { startNanos, endNanos, version } of deletions) {
      // A window has the rows in (end - resolution, end].
      const first = this.#numbers.firstFrom(startNanos);
      const past = this.#numbers.firstFrom(endNanos + resolutionNanos - 1n);
      // The later one stays where two touch a window.
      if (startNanos < endNanos) this.#touched.fill(version, first, past);
    }
  }

  #readBefore(before: readonly Uint8Array[]): void {
    const [known, touched, isGone] = [this.#known.fill(0), this.#touched, this.#isGone.fill(0)];
    for (const chunk of apart(before).typed) {
      const read = readDeletions(chunk);
      const words = wordsOf(read.timestampNanos);
      const numberOf = (row: number): number => {
        return this.#numbers.of(words[2 * row]!, words[2 * row + 1]! | 0);
      };
      for (const [group, of] of read.groups.entries()) {
        if (!isOfWindows(of)) continue;
        for (const row of of.rows) {
          const number = numberOf(row);
          if (number >= 0 && touched[number]! > 0) isGone[number] = 1;
        }
        const column = read.columns.find((each) => each.group === group);
        if (column === undefined) continue;
        const { rows, values } = column;
        for (let i = 0; i < rows.length; i++) {
          const number = numberOf(rows[i]!);
          // Of two chunks of one time the window with the later deletion stays.
          if (number >= 0 && values[i]! > known[number]!) known[number] = values[i]!;
        }
      }
    }
  }

  /** Of each of these windows, which are not gone. */
  #versionsOf(endNanos: BigInt64Array): Float64Array {
    const words = wordsOf(endNanos);
    const versions = new Float64Array(endNanos.length);
    for (let i = 0; i < versions.length; i++) {
      const number = this.#numbers.of(words[2 * i]!, words[2 * i + 1]! | 0);
      versions[i] = this.#version(number);
      this.#isGone[number] = 0;
    }
    return versions;
  }

  #version(number: number): number {
    return Math.max(this.#touched[number]!, this.#known[number]!);
  }

  #chunksOfGone(): Uint8Array[] {
    const gone: number[] = [];
    const { count } = this.#numbers;
    for (let number = this.#isGone.indexOf(1); number >= 0 && number < count; ) {
      gone.push(number);
      number = this.#isGone.indexOf(1, number + 1);
    }
    const chunks: Uint8Array[] = [];
    for (let first = 0; first < gone.length; first += chunkWindowsMax) {
      chunks.push(this.#chunkOfGone(gone.slice(first, first + chunkWindowsMax)));
    }
    return chunks;
  }

  #chunkOfGone(numbers: readonly number[]): Uint8Array {
    let version = -1;
    let value = noBytes;
    // Many have the same.
    const values = numbers.map((number) => {
      if (this.#version(number) === version) return value;
      version = this.#version(number);
      return (value = valueOfWindow({ ...emptyWindow, deletions: BigInt(version) }));
    });
    const timestampNanos = BigInt64Array.from(numbers, (number) => this.#numbers.endNanos(number));
    let end = 0;
    return encodeTypedRows({
      timestampNanos,
      valueBytes: new Uint8Array(Buffer.concat(values)),
      valueEnds: Uint32Array.from(values, ({ length }) => (end += length)),
      // No version is below that of 1970.
      rowVersions: Float64Array.from(timestampNanos, (nanos) => {
        return Math.max(0, Number(versionAtNanos(nanos)));
      }),
      startNanos: null,
    });
  }
}

const noBytes = new Uint8Array(0);
const askedDeletions = new Map([[windowField.deletions, 'all' as const]]);
let reader: TypedColumnsReader | null = null;

/** What somebody wrote by hand among windows is of other groups. */
function readDeletions(chunk: Uint8Array): TypedColumns {
  reader ??= new TypedColumnsReader();
  return reader.read(chunk, askedDeletions);
}

/** Of floats, or of histograms. */
const isOfWindows = ({ kind }: TypedColumns['groups'][number]): boolean =>
  kind === valueKind.window;

/** Whether one of these windows was made without something that was deleted. */
export function knowsDeletions(chunks: readonly Uint8Array[]): boolean {
  return apart(chunks).typed.some((chunk) => {
    const { groups, columns } = readDeletions(chunk);
    return columns.some(({ group }) => isOfWindows(groups[group]!));
  });
}

/** Low and high words. */
function wordsOf({ buffer, byteOffset, length }: BigInt64Array): Uint32Array {
  return new Uint32Array(buffer, byteOffset, 2 * length);
}
