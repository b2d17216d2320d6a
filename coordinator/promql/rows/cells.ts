/**
 * Rows of a step grid in which a step may have a native histogram instead of a number. Where it has one the number is a
 * NaN that is not absent: what knows floats alone drops histograms first (`dropHistograms`).
 */
import type { FloatHistogram } from '#engine/histograms/float_histogram.ts';
import { type HistogramBlock, histogramsOf } from '#engine/histograms/windows/histogram_block.ts';
import {
  absentBits,
  isAbsent,
  makeRowBuffer,
  rowBufferOf,
  type RowBuffer,
  setAbsent,
} from '#engine/window_functions/row.ts';
import type { Pacer } from './pacer.ts';

export class Cells implements RowBuffer {
  readonly values: Float64Array;
  readonly words: Uint32Array;
  readonly bits: BigUint64Array;
  #histograms: (FloatHistogram | undefined)[] | null;
  #block: HistogramBlock | null = null;

  constructor({ values, words, bits }: RowBuffer, histograms: Cells['histograms'] = null) {
    this.values = values;
    this.words = words;
    this.bits = bits;
    this.#histograms = histograms;
  }

  /** By cell; null when none has one. They are never changed: who changes one copies it before. */
  get histograms(): (FloatHistogram | undefined)[] | null {
    if (this.#block !== null) this.#takeApart(this.#block);
    return this.#histograms;
  }

  set histograms(histograms: (FloatHistogram | undefined)[] | null) {
    this.#histograms = histograms;
    this.#block = null;
  }

  /** All there is in these cells, as long as nobody has looked at the histograms one by one. */
  get block(): HistogramBlock | null {
    return this.#block;
  }

  /** @param block what all cells have; its steps are cells */
  putBlock(block: HistogramBlock): void {
    this.bits.fill(absentBits);
    const { steps } = block;
    for (let i = 0; i < steps.length; i++) this.values[steps[i]!] = Number.NaN;
    this.#histograms = null;
    this.#block = block;
  }

  #takeApart(block: HistogramBlock): void {
    const all = new Array<FloatHistogram | undefined>(this.values.length);
    histogramsOf(block, (cell, histogram) => {
      all[cell] = histogram;
    });
    this.histograms = all;
  }
}

/** So many cells, all absent. */
export function makeCells(length: number): Cells {
  return new Cells(makeRowBuffer(length));
}

/** So many cells that hold 0, for who writes each of them: large memory costs nothing until it is written. */
export function unwrittenCells(length: number): Cells {
  return cellsOf(new Float64Array(length), length);
}

/** Cells that are made absent in one go: half a millisecond. */
const cellsAtOnce = 1 << 18;

/** As `makeCells`, in turns with others. */
export async function makeCellsPaced(length: number, pacer: Pacer): Promise<Cells> {
  const cells = unwrittenCells(length);
  for (let from = 0; from < length; from += cellsAtOnce) {
    const past = Math.min(length, from + cellsAtOnce);
    cells.bits.fill(absentBits, from, past);
    if (pacer.spend((past - from) >>> 1)) await pacer.pause();
  }
  return cells;
}

/** The first `length` values as cells, without a copy. */
export function cellsOf(values: Float64Array, length: number): Cells {
  return new Cells(rowBufferOf(values, length));
}

/** The first `length` cells, without a copy. */
export function firstCells(cells: Cells, length: number): Cells {
  return new Cells(rowBufferOf(cells.values, length), cells.histograms);
}

export function histogramOf(cells: Cells, cell: number): FloatHistogram | null {
  if (cells.histograms === null || isAbsent(cells.words, cell)) return null;
  return cells.histograms[cell] ?? null;
}

export function setHistogram(cells: Cells, cell: number, histogram: FloatHistogram): void {
  cells.values[cell] = Number.NaN;
  cells.histograms ??= new Array<FloatHistogram | undefined>(cells.values.length);
  cells.histograms[cell] = histogram;
}

/** Copies cells onto others, which have no histograms. */
export function copyCells(
  from: Cells,
  at: number,
  count: number,
  to: Cells,
  targetAt: number,
): void {
  to.bits.set(from.bits.subarray(at, at + count), targetAt);
  if (from.histograms === null) return;
  for (let i = 0; i < count; i++) copyHistogram(from, at + i, to, targetAt + i);
}

/** Of a cell whose bits have been copied. */
export function copyHistogram(from: Cells, cell: number, to: Cells, target: number): void {
  const histogram = from.histograms?.[cell];
  if (histogram === undefined) return;
  to.histograms ??= new Array<FloatHistogram | undefined>(to.values.length);
  to.histograms[target] = histogram;
}

/** Leaves floats alone. @returns whether there was a histogram */
export function dropHistograms(cells: Cells): boolean {
  const { histograms, words } = cells;
  if (histograms === null) return false;
  let found = false;
  for (let cell = 0; cell < histograms.length; cell++) {
    if (histograms[cell] === undefined || isAbsent(words, cell)) continue;
    setAbsent(words, cell);
    found = true;
  }
  cells.histograms = null;
  return found;
}

/** Whether one of them is a number. */
export function hasFloat(cells: Cells, at: number, count: number): boolean {
  if (cells.block !== null) return false;
  const { values, words, histograms } = cells;
  for (let cell = at; cell < at + count; cell++) {
    const value = values[cell]!;
    if (value === value) return true;
    if (histograms?.[cell] === undefined && !isAbsent(words, cell)) return true;
  }
  return false;
}

/** Of what a histogram takes beside its buckets, and for each of them. */
const histogramBytes = 320;
const bucketBytes = 12;

/** About what the histograms of cells take. */
export function histogramBytesOf(cells: Cells, at: number, count: number): number {
  if (cells.histograms === null) return 0;
  let bytes = 0;
  for (let cell = at; cell < at + count; cell++) {
    const histogram = cells.histograms[cell];
    if (histogram !== undefined) bytes += bytesOfHistogram(histogram);
  }
  return bytes;
}

/** About what the histograms of a block take, one by one. */
export function bytesOfBlock({ steps, positive, negative }: HistogramBlock): number {
  return steps.length * (histogramBytes + bucketBytes * (positive.length + negative.length));
}

export function bytesOfHistogram(histogram: FloatHistogram): number {
  const { counts } = histogram.looseSide('positive');
  const buckets = counts.length + histogram.looseSide('negative').counts.length;
  return histogramBytes + bucketBytes * buckets;
}
