/**
 * Instant vectors over a step grid: labels, and one row of the grid a series. Rows are made when
 * they are asked for, so `sum(rate(x[5m]))` over many series never holds more than one of them.
 */
import { absentBits, isAbsent, type RowBuffer } from '#engine/window_functions/row.ts';
import { executionError } from '../words/errors.ts';
import {
  type Cells,
  copyCells,
  copyHistogram,
  firstCells,
  histogramBytesOf,
  makeCells,
  makeCellsPaced,
  unwrittenCells,
} from './cells.ts';
import type { Labels } from './labels.ts';
import { visitPaced } from './paced.ts';
import type { Pacer } from './pacer.ts';

export abstract class Rows {
  readonly labels: readonly Labels[];
  readonly stepCount: number;
  /** Steps that `load` goes through for a row in all the vectors that it is made of. */
  readonly loadSteps: number;
  /** Where `load` puts rows. */
  buffer: Cells;
  /**
   * Whether each row is made anew at the beginning of the buffer whenever it is asked for: who has loaded it may
   * change it there.
   */
  readonly isMadeAnew: boolean;

  protected constructor(
    labels: readonly Labels[],
    stepCount: number,
    buffer: Cells,
    { loadSteps = 0, isMadeAnew = false }: { loadSteps?: number; isMadeAnew?: boolean } = {},
  ) {
    this.labels = labels;
    this.stepCount = stepCount;
    this.buffer = buffer;
    this.loadSteps = loadSteps;
    this.isMadeAnew = isMadeAnew;
  }

  get count(): number {
    return this.labels.length;
  }

  /**
   * Makes row `index` available until the next call.
   * @returns where it starts in `buffer`; `notReady` when it would hold up others: then `prepare` comes first
   */
  abstract load(index: number): number;

  /** Makes a row for which `load` says `notReady`; the next call of `load` for it has it. */
  abstract prepare(index: number): Promise<void>;
}

/** What `load` returns for a row that has to be prepared. */
export const notReady = -1;

/** After `notReady`: prepares the row and loads it. */
export async function loadPrepared(rows: Rows, index: number): Promise<number> {
  await rows.prepare(index);
  return rows.load(index);
}

/** All rows in memory. */
export class Matrix extends Rows {
  constructor(labels: readonly Labels[], stepCount: number, buffer: Cells) {
    super(labels, stepCount, buffer);
  }

  /** All steps absent. */
  static make(labels: readonly Labels[], stepCount: number): Matrix {
    return new Matrix(labels, stepCount, makeCells(labels.length * stepCount));
  }

  /** The same, in turns with others. */
  static async makePaced(
    labels: readonly Labels[],
    stepCount: number,
    pacer: Pacer,
  ): Promise<Matrix> {
    return new Matrix(labels, stepCount, await makeCellsPaced(labels.length * stepCount, pacer));
  }

  /** For who writes every cell. */
  static unwritten(labels: readonly Labels[], stepCount: number): Matrix {
    return new Matrix(labels, stepCount, unwrittenCells(labels.length * stepCount));
  }

  load(index: number): number {
    return index * this.stepCount;
  }

  async prepare(): Promise<void> {}

  withLabels(labels: readonly Labels[]): Matrix {
    return new Matrix(labels, this.stepCount, this.buffer);
  }
}

/** Rows of another vector, each changed in place: those of a hundred operators one after the other in one buffer. */
export class MappedRows extends Rows {
  readonly #source: Rows;
  readonly #map: (row: Cells, index: number) => void;
  readonly #indexes: readonly number[] | null;

  /**
   * @param map changes the row, which starts at 0 in its buffer
   * @param indexes of the source's rows; null = all in their order
   */
  constructor(
    source: Rows,
    labels: readonly Labels[],
    map: (row: Cells, index: number) => void,
    indexes: readonly number[] | null = null,
  ) {
    const { stepCount, loadSteps } = source;
    super(labels, stepCount, source.isMadeAnew ? source.buffer : makeCells(stepCount), {
      loadSteps: loadSteps + stepCount,
      isMadeAnew: true,
    });
    this.#source = source;
    this.#map = map;
    this.#indexes = indexes;
  }

  load(index: number): number {
    const at = this.#source.load(this.#sourceIndex(index));
    if (at === notReady) return notReady;
    const { buffer } = this.#source;
    if (buffer !== this.buffer) {
      this.buffer.histograms = null;
      copyCells(buffer, at, this.stepCount, this.buffer, 0);
    }
    this.#map(this.buffer, index);
    return 0;
  }

  prepare(index: number): Promise<void> {
    return this.#source.prepare(this.#sourceIndex(index));
  }

  #sourceIndex(index: number): number {
    return this.#indexes === null ? index : this.#indexes[index]!;
  }
}

/**
 * The same row at every step of a longer grid: the value of an expression that does not depend on
 * time.
 */
export class RepeatedRows extends Rows {
  readonly #source: Rows;

  constructor(source: Rows, stepCount: number) {
    super(source.labels, stepCount, makeCells(stepCount), {
      loadSteps: source.loadSteps + stepCount,
      isMadeAnew: true,
    });
    this.#source = source;
  }

  load(index: number): number {
    const at = this.#source.load(index);
    if (at === notReady) return notReady;
    const { bits, histograms } = this.#source.buffer;
    this.buffer.bits.fill(bits[at]!);
    const histogram = histograms?.[at];
    this.buffer.histograms =
      histogram === undefined ? null : Array.from({ length: this.stepCount }, () => histogram);
    return 0;
  }

  prepare(index: number): Promise<void> {
    return this.#source.prepare(index);
  }
}

/** The same rows under other labels. */
export class RelabelledRows extends Rows {
  readonly #source: Rows;

  constructor(source: Rows, labels: readonly Labels[]) {
    super(labels, source.stepCount, source.buffer, source);
    this.#source = source;
  }

  load(index: number): number {
    const at = this.#source.load(index);
    this.buffer = this.#source.buffer;
    return at;
  }

  prepare(index: number): Promise<void> {
    return this.#source.prepare(index);
  }
}

/** Puts all rows into memory; those without any value are left out. */
export async function materialize(rows: Rows, pacer: Pacer): Promise<Matrix> {
  if (rows instanceof Matrix) return rows;
  const { stepCount } = rows;
  if (pacer.hold(rows.count * stepCount)) await pacer.room();
  const buffer = unwrittenCells(rows.count * stepCount);
  const labels: Labels[] = [];
  for (let index = 0; index < rows.count; index++) {
    let at = rows.load(index);
    if (at === notReady) at = await loadPrepared(rows, index);
    if (hasValue(rows.buffer, at, stepCount)) {
      if (pacer.take(histogramBytesOf(rows.buffer, at, stepCount))) await pacer.room();
      copyCells(rows.buffer, at, stepCount, buffer, labels.length * stepCount);
      labels.push(rows.labels[index]!);
    }
    if (pacer.spend(stepCount)) await pacer.pause();
  }
  return new Matrix(labels, stepCount, firstCells(buffer, labels.length * stepCount));
}

export function hasValue(buffer: RowBuffer, at: number, stepCount: number): boolean {
  for (let i = at; i < at + stepCount; i++) {
    const value = buffer.values[i]!;
    if (value === value || !isAbsent(buffer.words, i)) return true;
  }
  return false;
}

/** Where series with the same labels may have values: elsewhere than the others, or one of them alone. */
export type SameLabels = 'at other steps' | 'not at all';

/**
 * Series that have got the same labels become one: at most one of them may have a value at a step.
 * @throws {PromqlError} when two have values where they may not
 */
export async function mergeSameLabels(
  rows: Rows,
  pacer: Pacer,
  sameLabels: SameLabels = 'at other steps',
): Promise<Rows> {
  const indexOfKey = new Map<string, number>();
  let hasTwins = false;
  await visitPaced(
    rows.labels,
    ({ key }) => {
      if (indexOfKey.has(key)) hasTwins = true;
      else indexOfKey.set(key, indexOfKey.size);
    },
    pacer.work,
  );
  if (!hasTwins) return rows;
  const { stepCount } = rows;
  if (pacer.hold(indexOfKey.size * stepCount)) await pacer.room();
  const labels: Labels[] = [];
  const buffer = await makeCellsPaced(indexOfKey.size * stepCount, pacer);
  const filled = new Set<number>();
  for (let index = 0; index < rows.count; index++) {
    const target = indexOfKey.get(rows.labels[index]!.key)!;
    labels[target] ??= rows.labels[index]!;
    let at = rows.load(index);
    if (at === notReady) at = await loadPrepared(rows, index);
    const { buffer: source } = rows;
    if (pacer.take(histogramBytesOf(source, at, stepCount))) await pacer.room();
    if (sameLabels === 'not at all' && hasValue(source, at, stepCount)) {
      if (filled.has(target)) throw sameLabelset();
      filled.add(target);
    }
    for (let step = 0; step < stepCount; step++) {
      const bits = source.bits[at + step]!;
      if (bits === absentBits) continue;
      const cell = target * stepCount + step;
      if (buffer.bits[cell] !== absentBits) throw sameLabelset();
      buffer.bits[cell] = bits;
      copyHistogram(source, at + step, buffer, cell);
    }
    if (pacer.spend(stepCount)) await pacer.pause();
  }
  return new Matrix(labels, stepCount, buffer);
}

/** Two series have values at one step. */
export function sameLabelset(): Error {
  return executionError('vector cannot contain metrics with the same labelset');
}
