/**
 * The integer stream of the codec (docs/formats/codec.md), written for reading: a predictor, and
 * what it misses by as Huffman symbols of a fixed book with some low bits beside them. Integers
 * wrap at 64 bits.
 */
import { ByteSink, malformed, unzigzag, zigzagOf, type ByteSource } from './chunk.ts';
import { bookCount, books, codeBitsMax, escapeSymbol, symbolAt } from './books.ts';

const form = { linear: 0, sparse: 1, packed: 2, packedWithLowBits: 3 } as const;

const wrap = (value: bigint) => BigInt.asIntN(64, value);
const absolute = (value: bigint) => Math.abs(Number(value));

/** Bits of a non-negative number; 0 has none. */
function bitLength(value: bigint): number {
  return value === 0n ? 0 : value.toString(2).length;
}

/** Mean step from the first to the last integer, to the nearest, halves away from zero. */
export function roundedMean(
  integers: readonly bigint[],
  rowCount: number = integers.length,
): bigint {
  const steps = BigInt(rowCount - 1);
  const span = wrap(integers.at(-1)! - integers[0]!);
  const mean = span / steps;
  const rest = span % steps;
  if (rest < 0n) return -rest * 2n >= steps ? mean - 1n : mean;
  return rest * 2n >= steps ? mean + 1n : mean;
}

const medianSampleCount = 7;

/** Median of seven steps spread over the rows: a counter's reset does not move it. */
function medianStep(integers: readonly bigint[], mean: bigint): bigint {
  const stepCount = integers.length - 1;
  if (stepCount < medianSampleCount) return mean;
  const samples = Array.from({ length: medianSampleCount }, (_, i) => {
    const row = 1 + Math.floor((i * (stepCount - 1)) / (medianSampleCount - 1));
    return wrap(integers[row]! - integers[row - 1]!);
  });
  samples.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  return samples[medianSampleCount >> 1]!;
}

interface Prediction {
  /** False: from the integer before; true: from the line through the first. */
  readonly isLine: boolean;
  readonly step: bigint;
  /** Added to the line after the first integer. */
  readonly center: bigint;
  /** Of rows 1 and up. */
  readonly residuals: bigint[];
}

/** Takes the predictor whose misses have the smallest sum of magnitudes. */
function predict(integers: readonly bigint[]): Prediction {
  const mean = roundedMean(integers);
  const median = medianStep(integers, mean);
  const first = integers[0]!;
  const rest = integers.slice(1);
  const misses = (step: bigint) => rest.map((value, i) => wrap(value - integers[i]! - step));
  const sum = (residuals: bigint[]) => residuals.reduce((total, miss) => total + absolute(miss), 0);
  const fromMean = misses(mean);
  const fromMedian = misses(median);
  const isMedian = sum(fromMedian) < sum(fromMean);
  const step = isMedian ? median : mean;
  const fromBefore = isMedian ? fromMedian : fromMean;

  const offsets = rest.map((value, i) => wrap(value - first - BigInt(i + 1) * mean));
  const offsetMean = offsets.reduce((total, offset) => total + Number(offset), 0) / rest.length;
  if (Math.abs(offsetMean) < 2 ** 62) {
    const center = BigInt(Math.trunc(offsetMean));
    const fromLine = offsets.map((offset) => wrap(offset - center));
    if (sum(fromLine) < sum(fromBefore)) {
      return { isLine: true, step: mean, center, residuals: fromLine };
    }
  }
  return { isLine: false, step, center: 0n, residuals: fromBefore };
}

interface Packing {
  readonly book: number;
  readonly lowBits: number;
  readonly bits: number;
}

/** Bits of a residual without sign, for choosing how many of them go beside the symbols. */
function magnitudeBits(residual: bigint): number {
  return bitLength(BigInt.asUintN(64, residual < 0n ? ~residual : residual));
}

function choosePacking(residuals: readonly bigint[]): Packing {
  const sizes = residuals.map(magnitudeBits).sort((a, b) => a - b);
  const upper = sizes[Math.ceil((residuals.length * 3) / 4) - 1]!;
  let best: Packing | null = null;
  for (let lowBits = Math.max(0, upper - 3); lowBits <= Math.max(0, upper - 1); lowBits++) {
    const codes = residuals.map((residual) => zigzagOf(residual >> BigInt(lowBits)));
    let rawBits = residuals.length * lowBits;
    for (const code of codes) if (code >= 15n) rawBits += 6 + Math.max(1, bitLength(code - 15n));
    for (let book = 0; book < bookCount; book++) {
      const { lengths } = books[book]!;
      const bits = codes.reduce((sum, code) => sum + lengths[symbolOf(code)]!, rawBits);
      if (best === null || bits < best.bits) best = { book, lowBits, bits };
    }
  }
  return best!;
}

function symbolOf(code: bigint): number {
  return code < 15n ? Number(code) : escapeSymbol;
}

function sparseOf(residuals: readonly bigint[]): ByteSink {
  const sink = new ByteSink();
  sink.varint(BigInt(residuals.filter((residual) => residual !== 0n).length));
  let rowNext = 0;
  residuals.forEach((residual, row) => {
    if (residual === 0n) return;
    sink.varint(BigInt(row - rowNext));
    sink.zigzag(residual);
    rowNext = row + 1;
  });
  return sink;
}

/** Streams with fewer steps are written without a factor: it would cost more than it saves. */
const factorStepsMin = 8;

/** What all steps are multiples of; 1 also when there are few. */
function commonFactor(steps: readonly bigint[]): bigint {
  if (steps.length < factorStepsMin) return 1n;
  let factor = 0n;
  for (const step of steps) {
    let [a, b] = [factor, step < 0n ? -step : step];
    while (b !== 0n) [a, b] = [b, a % b];
    factor = a;
  }
  return factor;
}

/**
 * Appends the integers after the first one, which the reader knows.
 * @param integers at least two
 * @param stepExpected what the reader expects the step to be: the step is written relative to it
 */
export function encodeIntegers(
  sink: ByteSink,
  integers: readonly bigint[],
  stepExpected: bigint,
): void {
  const steps = integers.slice(1).map((value, i) => wrap(value - integers[i]!));
  if (steps.every((step) => step === steps[0])) {
    sink.byte(form.linear << 5);
    sink.zigzag(steps[0]! - stepExpected);
    return;
  }
  const factor = commonFactor(steps);
  if (factor === 1n) return encodeScaled(sink, integers, stepExpected, 1n);
  const scaled = [0n];
  for (let i = 1; i < integers.length; i++) {
    scaled.push(wrap(scaled[i - 1]! + steps[i - 1]! / factor));
  }
  encodeScaled(sink, scaled, 0n, factor);
}

function encodeScaled(
  sink: ByteSink,
  integers: readonly bigint[],
  stepExpected: bigint,
  factor: bigint,
): void {
  const { isLine, step, center, residuals } = predict(integers);
  const head = (formCode: number, book: number) => {
    sink.byte(book | (isLine ? 16 : 0) | (formCode << 5) | (factor === 1n ? 0 : 128));
    if (factor !== 1n) sink.varint(factor);
    sink.zigzag(step - stepExpected);
    if (isLine) sink.zigzag(center);
  };
  const nonZeroCount = residuals.filter((residual) => residual !== 0n).length;
  const packing = choosePacking(residuals);
  const packedBytes = Math.ceil((residuals.length * packing.lowBits) / 8);
  const packedBytesAll =
    packedBytes +
    Math.ceil((packing.bits - residuals.length * packing.lowBits) / 8) +
    (packing.lowBits > 0 ? 1 : 0);
  if (nonZeroCount <= residuals.length >> 3) {
    const sparse = sparseOf(residuals);
    if (sparse.length <= packedBytesAll) {
      head(form.sparse, 0);
      sink.bytes(sparse.finish());
      return;
    }
  }
  head(packing.lowBits > 0 ? form.packedWithLowBits : form.packed, packing.book);
  writePacked(sink, residuals, packing);
}

function writePacked(sink: ByteSink, residuals: readonly bigint[], packing: Packing): void {
  const { book, lowBits } = packing;
  const { lengths, codes } = books[book]!;
  if (lowBits > 0) {
    sink.byte(lowBits);
    const low = new BitWriter(sink);
    for (const residual of residuals) low.put(BigInt.asUintN(lowBits, residual), lowBits);
    low.flush();
  }
  const high = new BitWriter(sink);
  for (const residual of residuals) {
    const code = zigzagOf(residual >> BigInt(lowBits));
    const symbol = symbolOf(code);
    high.put(BigInt(codes[symbol]!), lengths[symbol]!);
    if (symbol !== escapeSymbol) continue;
    const over = code - 15n;
    const overBits = Math.max(1, bitLength(over));
    high.put(BigInt(overBits - 1), 6);
    high.put(over, overBits);
  }
  high.flush();
}

/**
 * Reads `rowCount` integers (at least two), of which the first is known.
 * @throws {TsdbError} BAD_REQUEST
 */
export function decodeIntegers(
  source: ByteSource,
  rowCount: number,
  first: bigint,
  stepExpected: bigint,
): bigint[] {
  const tag = source.byte();
  const isLine = (tag & 16) !== 0;
  const formCode = (tag >> 5) & 3;
  if (formCode < form.packed && (tag & 15) !== 0) {
    throw malformed('names a book without symbols', source.offset);
  }
  if (formCode === form.linear && isLine) {
    throw malformed('has a line without residuals', source.offset);
  }
  const factor = tag & 128 ? source.varint() : 1n;
  const step = wrap(source.zigzag() + (tag & 128 ? 0n : stepExpected));
  const center = isLine ? source.zigzag() : 0n;
  const residuals = readResiduals(source, rowCount - 1, formCode, tag & 15);
  const scaled = [0n];
  residuals.forEach((residual, i) => {
    const base = isLine ? BigInt(i + 1) * step + center : scaled[i]! + step;
    scaled.push(base + residual);
  });
  return scaled.map((value) => wrap(first + value * factor));
}

function readResiduals(
  source: ByteSource,
  count: number,
  formCode: number,
  book: number,
): bigint[] {
  if (formCode === form.linear) return Array.from({ length: count }, () => 0n);
  if (formCode === form.sparse) return readSparse(source, count);
  const lowBits = formCode === form.packedWithLowBits ? source.byte() : 0;
  if (lowBits > 63 || (formCode === form.packedWithLowBits && lowBits === 0)) {
    throw malformed('has a bad number of low bits', source.offset);
  }
  const low = source.take(Math.ceil((count * lowBits) / 8));
  const lowReader = new BitReader(low);
  const highReader = new BitReader(source.bytes.subarray(source.offset, source.end));
  const residuals: bigint[] = [];
  for (let i = 0; i < count; i++) {
    const code = readCode(highReader, book);
    if (highReader.isBeyondEnd) throw malformed('ends too early', source.end);
    residuals.push(wrap((unzigzag(code) << BigInt(lowBits)) | lowReader.take(lowBits)));
  }
  source.take(highReader.byteCount);
  return residuals;
}

function readCode(reader: BitReader, number: number): bigint {
  const book = books[number]!;
  const symbol = symbolAt(book, Number(reader.peek(codeBitsMax)), codeBitsMax);
  reader.take(book.lengths[symbol]!);
  if (symbol !== escapeSymbol) return BigInt(symbol);
  const overBits = Number(reader.take(6)) + 1;
  return BigInt.asUintN(64, reader.take(overBits) + 15n);
}

function readSparse(source: ByteSource, count: number): bigint[] {
  const residuals = Array.from({ length: count }, () => 0n);
  const nonZeroCount = source.varint();
  if (nonZeroCount > BigInt(count)) throw malformed('has too many residuals', source.offset);
  let rowNext = 0n;
  for (let i = 0n; i < nonZeroCount; i++) {
    const row = rowNext + source.varint();
    if (row >= BigInt(count)) throw malformed('has a residual after its rows', source.offset);
    residuals[Number(row)] = source.zigzag();
    rowNext = row + 1n;
  }
  return residuals;
}

/** Writes bits, the lowest of a number first, into bytes from their lowest bit on. */
class BitWriter {
  readonly #sink: ByteSink;
  #pending: bigint;
  #pendingBits: number;

  constructor(sink: ByteSink) {
    this.#sink = sink;
    this.#pending = 0n;
    this.#pendingBits = 0;
  }

  put(value: bigint, bitCount: number): void {
    this.#pending |= value << BigInt(this.#pendingBits);
    this.#pendingBits += bitCount;
    for (; this.#pendingBits >= 8; this.#pendingBits -= 8) {
      this.#sink.byte(Number(this.#pending & 255n));
      this.#pending >>= 8n;
    }
  }

  /** Fills the last byte with zero bits. */
  flush(): void {
    if (this.#pendingBits > 0) this.#sink.byte(Number(this.#pending));
    this.#pending = 0n;
    this.#pendingBits = 0;
  }
}

/** Reads them; after the last byte there are zero bits, so that a look ahead needs no care. */
class BitReader {
  readonly #bytes: Uint8Array;
  #bit: number;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#bit = 0;
  }

  peek(bitCount: number): bigint {
    let value = 0n;
    for (let i = 0; i < bitCount; i++) {
      const bit = this.#bit + i;
      const byte = this.#bytes[bit >> 3] ?? 0;
      value |= BigInt((byte >> (bit & 7)) & 1) << BigInt(i);
    }
    return value;
  }

  take(bitCount: number): bigint {
    const value = this.peek(bitCount);
    this.#bit += bitCount;
    return value;
  }

  get isBeyondEnd(): boolean {
    return this.#bit > this.#bytes.length * 8;
  }

  /** Bytes begun. */
  get byteCount(): number {
    return (this.#bit + 7) >> 3;
  }
}
