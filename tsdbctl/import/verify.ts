/** Whether a cluster has what a source has: every row of every series, bit for bit. Native histograms are counted, not compared. */
import { nodeTag } from '#lib/series_id/from_tags.ts';
import type { Tag } from '#lib/tags.ts';
import { nanosPerMilli } from '#lib/time.ts';
import {
  carbonPathOf,
  type ImportPart,
  type ImportSeries,
  type ImportSource,
  tagsWithValues,
} from '../sources/source.ts';
import { takeParts } from './taking.ts';
import type { Target } from './target.ts';

/** Series of one request. */
const seriesMax = 50;
/** Rows of one request, about. */
const rowsMax = 200_000;
const differencesMax = 20;
/** M3 makes whole numbers of values times a power of ten, and back: that may be so many floats beside the value. */
const roundedFloatsMax = 4n;
const exponentMask = 0x7ff0000000000000n;

export interface Verified {
  readonly series: number;
  readonly rows: number;
  /** Rows that the cluster has not. */
  readonly missing: number;
  /** Rows that it has with another value: what was written to it later wins. */
  readonly different: number;
  /** Rows of which the values differ by no more than M3 rounds what it stores. */
  readonly rounded: number;
  readonly histogramsNotCompared: number;
  /** Series that were left out, since their tags cannot be read. */
  readonly untagged: number;
  /** Parts that the source deleted before they were read, and has no more. */
  readonly lost: readonly string[];
  /** Of the first ones, for people. */
  readonly differences: readonly string[];
}

/**
 * @param roundsValues the source is an M3, or may be one: its values are those that were written to it but for the last digits
 * @param onDamage is told of what is damaged, which is passed over then
 */
export async function verifySource(
  source: ImportSource,
  roundsValues: boolean,
  target: Pick<Target, 'read'>,
  signal: AbortSignal,
  onPart: (part: ImportPart, missing: number) => void,
  onDamage?: (line: string) => void,
): Promise<Verified> {
  const check = new Check(target, roundsValues);
  const compare = async (part: ImportPart): Promise<boolean> => {
    const before = check.missing;
    for await (const series of part.series(0)) {
      signal.throwIfAborted();
      await check.add(series);
    }
    await check.end();
    check.untagged += part.untagged?.() ?? 0;
    onPart(part, check.missing - before);
    return true;
  };
  const toTake = { isDone: () => false, take: compare, onDamage, signal };
  const { lost } = await takeParts(source, toTake);
  check.lost = lost;
  return check;
}

class Check implements Verified {
  readonly #target: Pick<Target, 'read'>;
  readonly #roundsValues: boolean;
  #held: ImportSeries[] = [];
  #heldRows = 0;
  series = 0;
  rows = 0;
  missing = 0;
  different = 0;
  rounded = 0;
  histogramsNotCompared = 0;
  untagged = 0;
  lost: readonly string[] = [];
  readonly differences: string[] = [];

  constructor(target: Pick<Target, 'read'>, roundsValues: boolean) {
    this.#target = target;
    this.#roundsValues = roundsValues;
  }

  async add(series: ImportSeries): Promise<void> {
    this.histogramsNotCompared += series.histograms?.length ?? 0;
    if (series.timestampNanos.length === 0) return;
    this.#held.push({ ...series, tags: tagsWithValues(series.tags) });
    this.#heldRows += series.timestampNanos.length;
    if (this.#held.length >= seriesMax || this.#heldRows >= rowsMax) await this.end();
  }

  async end(): Promise<void> {
    const held = this.#held;
    this.#held = [];
    this.#heldRows = 0;
    if (held.length === 0) return;
    const times = held.flatMap(({ timestampNanos }) => [
      timestampNanos[0]!,
      timestampNanos.at(-1)!,
    ]);
    const form = new URLSearchParams([
      ...held.map(({ tags }) => ['match[]', selectorOf(tags)]),
      ['start', secondsOf(times.reduce((a, b) => (b < a ? b : a)))],
      // To the end of the millisecond that the last row is in.
      ['end', secondsOf(times.reduce((a, b) => (b > a ? b : a)) + nanosPerMilli)],
    ]);
    const found = rowsOf(await this.#target.read('/api/v1/export', form));
    for (const series of held) this.#compare(series, found.get(keyOf(series.tags)) ?? new Map());
  }

  #compare(
    { tags, timestampNanos, values }: ImportSeries,
    found: ReadonlyMap<number, bigint>,
  ): void {
    this.series += 1;
    const bits = new BigUint64Array(values.buffer, values.byteOffset, values.length);
    let [missing, different] = [0, 0];
    let firstMillis: number | null = null;
    for (const [row, nanos] of timestampNanos.entries()) {
      const millis = Number(nanos / nanosPerMilli);
      // The last row of a millisecond is what an export has of it.
      const next = timestampNanos[row + 1];
      if (next !== undefined && Number(next / nanosPerMilli) === millis) continue;
      this.rows += 1;
      const there = found.get(millis);
      if (there === bits[row]) continue;
      if (there === undefined) missing += 1;
      else if (this.#roundsValues && isNear(there, bits[row]!)) {
        this.rounded += 1;
        continue;
      } else different += 1;
      firstMillis ??= millis;
    }
    this.missing += missing;
    this.different += different;
    if (firstMillis === null || this.differences.length >= differencesMax) return;
    this.differences.push(
      `${selectorOf(tags)}: of ${timestampNanos.length} rows ${missing} are missing and ${different} have another value, the first at ${new Date(firstMillis).toISOString()}`,
    );
  }
}

/** Floats of one sign are as far apart as their bits. */
function isNear(a: bigint, b: bigint): boolean {
  const apart = a > b ? a - b : b - a;
  return hasValue(a) && hasValue(b) && apart <= roundedFloatsMax;
}

/** Infinity, NaN and the mark of an end have bits side by side. */
const hasValue = (bits: bigint): boolean => (bits & exponentMask) !== exponentMask;

function secondsOf(nanos: bigint): string {
  const millis = nanos / nanosPerMilli;
  return `${millis / 1000n}.${String(millis % 1000n).padStart(3, '0')}`;
}

/** A selector of exactly these tags, and perhaps of series that have more; but not of the tree below a path. */
function selectorOf(tags: readonly Tag[]): string {
  const path = carbonPathOf(tags);
  const all = path === null ? tags : [...tags, { name: nodeTag(tags.length), value: '' }];
  return `{${all.map(({ name, value }) => `${labelName(name)}=${JSON.stringify(value)}`).join(',')}}`;
}

const labelName = (name: string): string =>
  /^[a-zA-Z_][a-zA-Z0-9_]*$/.test(name) ? name : JSON.stringify(name);

const keyOf = (tags: readonly Tag[]): string =>
  JSON.stringify(
    tags.map(({ name, value }) => [name, value]).sort(([a], [b]) => (a! < b! ? -1 : 1)),
  );

/** Bits of values by time, Unix milliseconds, for each series of an export. */
function rowsOf(text: string): Map<string, Map<number, bigint>> {
  const all = new Map<string, Map<number, bigint>>();
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('{"end"')) continue;
    const { metric, values, timestamps } = JSON.parse(line) as {
      readonly metric: Readonly<Record<string, string>>;
      readonly values: readonly (number | string | null)[];
      readonly timestamps: readonly number[];
    };
    const key = keyOf(Object.entries(metric).map(([name, value]) => ({ name, value })));
    let rows = all.get(key);
    if (rows === undefined) all.set(key, (rows = new Map()));
    for (const [i, millis] of timestamps.entries()) rows.set(millis, bitsOf(values[i]!));
  }
  return all;
}

/** The bits of Prometheus' NaN. */
const ordinaryNan = 0x7ff8000000000001n;

function bitsOf(value: number | string | null): bigint {
  if (value === null) return ordinaryNan;
  if (typeof value === 'string' && value.startsWith('NaN:')) return BigInt(`0x${value.slice(4)}`);
  return new BigUint64Array(Float64Array.of(Number(value)).buffer)[0]!;
}
