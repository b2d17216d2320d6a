/**
 * Data of the soak: what each series has at each scrape is a function of both, so that an answer of
 * any age can be checked without keeping what was sent. Bodies are made once a slice of series; a
 * scrape changes times and values in the compressed bytes, so that one core sends half a million
 * samples a second beside the server.
 */

export const metricNames: readonly string[] = [
  'soak_cpu_user',
  'soak_cpu_system',
  'soak_disk_used_ratio',
  'soak_requests_total',
  'soak_memory_bytes',
];
/**
 * These are hundredths, counts that only grow, and large whole numbers; the others walk between 0
 * and 100.
 */
const ratioMetric = 2;
const counterMetric = 3;
const bytesMetric = 4;

/** Series in one request. */
export const seriesOfSlice = 2000;
const regions = ['eu-west-1', 'eu-central-1', 'us-east-1', 'us-west-2', 'ap-south-1'];

/** A random walk of steps of at most one between 0 and 100, and back to its begin. */
const walkLength = 1 << 16;
const walk = makeWalk();

function makeWalk(): Float64Array {
  const values = new Float64Array(walkLength);
  let state = 1;
  let value = 50;
  for (let i = 0; i < walkLength; i += 1) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    value = Math.min(100, Math.max(0, value + (Math.floor(state / 2 ** 16) % 3) - 1));
    values[i] = value;
  }
  return values;
}

/** @param series its number among all; the metric follows from it */
export function valueOf(series: number, scrape: number): number {
  const step = walk[(series * 7919 + scrape) & (walkLength - 1)]!;
  switch (series % metricNames.length) {
    case ratioMetric:
      return step / 100;
    case counterMetric:
      return scrape * 7 + step;
    case bytesMetric:
      return 1_073_741_824 + step * 4096;
    default:
      return step;
  }
}

/** @param generation raised when the slice's series are replaced by new ones */
export function labelsOf(series: number, generation: number): [name: string, value: string][] {
  const host = Math.floor(series / metricNames.length);
  return [
    ['__name__', metricNames[series % metricNames.length]!],
    ['arch', host % 3 === 0 ? 'arm64' : 'x64'],
    ['datacenter', `${regions[host % 5]!}${'abc'[host % 3]!}`],
    ['host', `host_${host}`],
    ['os', 'Debian13'],
    ['pod', `pod-${generation}-${host}`],
    ['rack', String(host % 90)],
    ['region', regions[host % 5]!],
    ['service', String(host % 20)],
    ['team', ['SF', 'NYC', 'LON', 'CHI'][host % 4]!],
  ];
}

/** What a load sends: of which labels a series is, and what it has at each scrape. */
export interface LoadData {
  readonly labelsOf: (series: number, generation: number) => [name: string, value: string][];
  readonly valueOf: (series: number, scrape: number) => number;
}

const sampleBytes = 16;
/** Any time of these years has six bytes as a varint. */
const timeBytes = 6;

/** The body of one slice, compressed. */
export class SliceBody {
  readonly #first: number;
  readonly #body: Buffer;
  /** Where the samples of the series are in it. */
  readonly #sampleAt: Uint32Array;
  readonly #valueOf: LoadData['valueOf'];

  constructor(
    slice: number,
    seriesCount: number,
    generation: number,
    data: LoadData = { labelsOf, valueOf },
  ) {
    this.#valueOf = data.valueOf;
    this.#first = slice * seriesOfSlice;
    const end = Math.min(this.#first + seriesOfSlice, seriesCount);
    const raw: number[] = [];
    const samplesAt: number[] = [];
    for (let series = this.#first; series < end; series += 1) {
      const one: number[] = [];
      for (const [name, value] of data.labelsOf(series, generation)) {
        const label: number[] = [];
        lengthField(label, 1, Buffer.from(name));
        lengthField(label, 2, Buffer.from(value));
        lengthField(one, 1, label);
      }
      one.push((2 << 3) | 2, sampleBytes);
      const sampleInOne = one.length;
      one.push((1 << 3) | 1, 0, 0, 0, 0, 0, 0, 0, 0, 2 << 3, 0, 0, 0, 0, 0, 0);
      lengthField(raw, 1, one);
      samplesAt.push(raw.length - one.length + sampleInOne);
    }
    const { bytes, placeOf } = compress(Uint8Array.from(raw), samplesAt);
    this.#body = bytes;
    this.#sampleAt = placeOf;
  }

  /** The body of one scrape. */
  at(scrape: number, unixMillis: number): Buffer {
    const body = Buffer.from(this.#body);
    const view = new DataView(body.buffer, body.byteOffset, body.length);
    const time: number[] = [];
    varint(time, unixMillis);
    if (time.length !== timeBytes) throw new Error(`a time of ${time.length} bytes: ${unixMillis}`);
    for (let i = 0; i < this.#sampleAt.length; i += 1) {
      const at = this.#sampleAt[i]!;
      view.setFloat64(at + 1, this.#valueOf(this.#first + i, scrape), true);
      for (let byte = 0; byte < timeBytes; byte += 1) body[at + 10 + byte] = time[byte]!;
    }
    return body;
  }

  get seriesCount(): number {
    return this.#sampleAt.length;
  }
}

function varint(target: number[], value: number): void {
  let rest = value;
  while (rest >= 128) {
    target.push((rest % 128) | 128);
    rest = Math.floor(rest / 128);
  }
  target.push(rest);
}

function lengthField(target: number[], number: number, bytes: ArrayLike<number>): void {
  varint(target, number * 8 + 2);
  varint(target, bytes.length);
  for (let i = 0; i < bytes.length; i += 1) target.push(bytes[i]!);
}

const matchBytesMin = 6;
const copyBytesMax = 64;
const copyDistanceMax = 65_535;

/** A snappy block in which every sample stands as it is, and no copy reaches into one. */
function compress(
  raw: Uint8Array,
  samplesAt: readonly number[],
): { bytes: Buffer<ArrayBuffer>; placeOf: Uint32Array } {
  const isSample = new Uint8Array(raw.length + 1);
  for (const at of samplesAt) isSample.fill(1, at, at + sampleBytes);
  const placeOf = new Uint32Array(samplesAt.length);
  const out: number[] = [];
  varint(out, raw.length);
  let literalFrom = 0;
  let sample = 0;
  const literal = (end: number): void => {
    if (end === literalFrom) return;
    const length = end - literalFrom;
    if (length <= 60) out.push((length - 1) << 2);
    else out.push(61 << 2, (length - 1) & 255, ((length - 1) >> 8) & 255);
    while (sample < samplesAt.length && samplesAt[sample]! < end) {
      placeOf[sample] = out.length + samplesAt[sample]! - literalFrom;
      sample += 1;
    }
    for (let i = literalFrom; i < end; i += 1) out.push(raw[i]!);
    literalFrom = end;
  };
  const seen = new Map<number, number>();
  const keyAt = (at: number): number =>
    raw[at]! | (raw[at + 1]! << 8) | (raw[at + 2]! << 16) | (raw[at + 3]! << 24);
  for (let at = 0; at < raw.length; ) {
    // A literal's length has two bytes here, and is ended between samples only.
    if (at - literalFrom > 60_000 && isSample[at] === 0) literal(at);
    const key = at + 4 <= raw.length ? keyAt(at) : 0;
    const before = seen.get(key);
    seen.set(key, at);
    let length = 0;
    if (before !== undefined && at - before <= copyDistanceMax) {
      while (
        at + length < raw.length &&
        raw[before + length] === raw[at + length] &&
        isSample[before + length] === 0 &&
        isSample[at + length] === 0
      ) {
        length += 1;
      }
    }
    if (length < matchBytesMin) {
      at += 1;
      continue;
    }
    literal(at);
    const distance = at - before!;
    for (let left = length; left > 0; left -= copyBytesMax) {
      const part = Math.min(left, copyBytesMax);
      out.push(((part - 1) << 2) | 2, distance & 255, distance >> 8);
    }
    at += length;
    literalFrom = at;
  }
  literal(raw.length);
  return { bytes: Buffer.from(Uint8Array.from(out)), placeOf };
}
