/**
 * What was written of windows that are not final, so that of those that are made once more only what differs is written. Windows
 * for whose values there is no room are known by a digest: when one differs, all of it is written anew.
 */
import type { ReducedRow } from '../aggregation_rules/rollups/reduce.ts';
import type { Tags } from '#lib/tags.ts';

/** Values that are kept, of all windows; each takes 16 bytes. */
const valuesMaxDefault = 4_000_000;

interface WrittenWindow {
  /** Of all values; equal ones have equal digests, whatever their order. */
  readonly digest: string;
  /** Null where only the digest is kept. Series are objects that stay while rules do. */
  readonly values: { readonly series: readonly Tags[]; readonly numbers: Float64Array } | null;
}

export class WrittenWindows {
  readonly #valuesMax: number;
  /** By their ends. */
  readonly #windows = new Map<bigint, WrittenWindow>();
  #valuesCount = 0;

  constructor(valuesMax: number = valuesMaxDefault) {
    this.#valuesMax = valuesMax;
  }

  /** How many values are kept. */
  get valuesCount(): number {
    return this.#valuesCount;
  }

  /** @param rows of the window; what follows a value in it, as the 0 of `Reset`, follows from it */
  note(endNanos: bigint, rows: readonly ReducedRow[]): void {
    this.#drop(endNanos);
    const ofWindow = rows.filter(({ nanos }) => nanos === endNanos);
    const hasRoom = this.#valuesCount + ofWindow.length <= this.#valuesMax;
    const values = hasRoom
      ? {
          series: ofWindow.map(({ tags }) => tags),
          numbers: Float64Array.from(ofWindow, ({ value }) => value),
        }
      : null;
    if (hasRoom) this.#valuesCount += ofWindow.length;
    this.#windows.set(endNanos, { digest: digestOf(ofWindow), values });
  }

  /** Of the rows that a window comes to now, those to be written: all, where nothing is known of it. */
  differing(endNanos: bigint, rows: readonly ReducedRow[]): readonly ReducedRow[] {
    const before = this.#windows.get(endNanos);
    if (before === undefined) return rows;
    const { digest, values } = before;
    if (values === null) {
      const ofWindow = rows.filter(({ nanos }) => nanos === endNanos);
      return digestOf(ofWindow) === digest ? [] : rows;
    }
    const { series, numbers } = values;
    const known = new Map(series.map((tags, at) => [tags, numbers[at]!]));
    const isOther = ({ tags, nanos, value }: ReducedRow): boolean =>
      nanos === endNanos && !Object.is(known.get(tags), value);
    const others = new Set(rows.filter(isOther).map(({ tags }) => tags));
    return others.size === 0 ? [] : rows.filter(({ tags }) => others.has(tags));
  }

  /** Forgets windows up to an end. */
  forget(endNanos: bigint): void {
    for (const end of [...this.#windows.keys()]) if (end <= endNanos) this.#drop(end);
  }

  clear(): void {
    this.#windows.clear();
    this.#valuesCount = 0;
  }

  #drop(endNanos: bigint): void {
    this.#valuesCount -= this.#windows.get(endNanos)?.values?.numbers.length ?? 0;
    this.#windows.delete(endNanos);
  }
}

const double = new Float64Array(1);
const halves = new Uint32Array(double.buffer);
/** So that the two halves of a digest are of different hashes. */
const seeds = [0x9e3779b9, 0x7f4a7c15] as const;

function digestOf(rows: readonly ReducedRow[]): string {
  const sums = seeds.map((seed) => {
    let sum = 0;
    for (const { seriesHash, value } of rows) {
      double[0] = value;
      sum = (sum + mixed(mixed(mixed(seriesHash ^ seed) ^ halves[0]!) ^ halves[1]!)) | 0;
    }
    return sum;
  });
  return `${rows.length} ${sums.join(' ')}`;
}

/** The end of murmur3_32: each bit of it depends on each of what is given. */
function mixed(bits: number): number {
  let hash = bits ^ (bits >>> 16);
  hash = Math.imul(hash, 0x85ebca6b);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}
