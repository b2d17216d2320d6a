/** The answer of a query. */
import type { FloatHistogram } from '#engine/histograms/float_histogram.ts';
import { isAbsent } from '#engine/window_functions/row.ts';
import { histogramOf } from '../rows/cells.ts';
import type { Labels } from '../rows/labels.ts';
import type { Grid } from '../plan/plan.ts';
import type { Matrix } from '../rows/rows.ts';
import type { QuerySamples } from './query_samples.ts';

/** Samples of one series of a range vector. */
export interface RawSeries {
  readonly labels: Labels;
  readonly floats: {
    readonly timestampMillis: Float64Array;
    readonly values: Float64Array;
    readonly count: number;
  };
  readonly histograms: {
    readonly timestampMillis: Float64Array;
    readonly histograms: readonly FloatHistogram[];
  };
}

export type QueryValue =
  | { readonly kind: 'scalar'; readonly timeMillis: number; readonly value: number }
  | { readonly kind: 'string'; readonly timeMillis: number; readonly value: string }
  /** One step. */
  | { readonly kind: 'vector'; readonly timeMillis: number; readonly matrix: Matrix }
  /** Series in the order of their labels. */
  | { readonly kind: 'matrix'; readonly grid: Grid; readonly matrix: Matrix }
  | { readonly kind: 'rawMatrix'; readonly series: readonly RawSeries[] };

/** Milliseconds. */
export interface QueryTimings {
  /** Until all that the text names was read: words, tree, plan, reads. */
  readonly preparationMillis: number;
  readonly evaluationMillis: number;
  readonly sortMillis: number;
}

export interface QueryStats {
  readonly timings: QueryTimings;
  /** Null when nobody has asked. */
  readonly samples: QuerySamples | null;
  /** Times of their steps. */
  readonly grid: Grid;
  /** Rows decoded, counted each time. */
  readonly decodedSamples: number;
  readonly selectedSeries: number;
  /** Samples held in memory at the end. */
  readonly heldSamples: number;
}

/** A sample for tests and small callers. */
export interface PlainSeries {
  readonly labels: Labels;
  /** In ascending time; of one time the float first. */
  readonly points: readonly PlainPoint[];
}

export interface PlainPoint {
  readonly timeMillis: number;
  readonly value: number | FloatHistogram;
}

export class QueryResult {
  readonly value: QueryValue;
  readonly warnings: readonly string[];
  readonly infos: readonly string[];
  /** False when a limit cut the answer. */
  readonly exhaustive: boolean;
  readonly stats: QueryStats;

  constructor(
    value: QueryValue,
    warnings: readonly string[],
    infos: readonly string[],
    exhaustive: boolean,
    stats: QueryStats,
  ) {
    this.value = value;
    this.warnings = warnings;
    this.infos = infos;
    this.exhaustive = exhaustive;
    this.stats = stats;
  }

  get resultType(): 'scalar' | 'string' | 'vector' | 'matrix' {
    return this.value.kind === 'rawMatrix' ? 'matrix' : this.value.kind;
  }

  /** Series of the answer. */
  get seriesCount(): number {
    const { value } = this;
    if (value.kind === 'rawMatrix') return value.series.length;
    return value.kind === 'vector' || value.kind === 'matrix' ? value.matrix.labels.length : 0;
  }

  /** Of a series. */
  rowCount(series: number): number {
    const { value } = this;
    if (value.kind === 'rawMatrix') {
      const { floats, histograms } = value.series[series]!;
      return floats.count + histograms.histograms.length;
    }
    if (value.kind !== 'vector' && value.kind !== 'matrix') return 0;
    const { buffer, stepCount } = value.matrix;
    let count = 0;
    for (let i = series * stepCount; i < (series + 1) * stepCount; i++) {
      if (!isAbsent(buffer.words, i)) count += 1;
    }
    return count;
  }

  /** All series with their points; a scalar is one series without labels. */
  series(): PlainSeries[] {
    const { value } = this;
    switch (value.kind) {
      case 'scalar':
      case 'string':
        return [];
      case 'vector':
        return plainRows(value.matrix, () => value.timeMillis);
      case 'matrix':
        return plainRows(
          value.matrix,
          (step) => value.grid.startMillis + step * value.grid.stepMillis,
        );
      case 'rawMatrix':
        return value.series.map(plainSeries);
    }
  }
}

function plainSeries({ labels, floats, histograms }: RawSeries): PlainSeries {
  const points: PlainPoint[] = Array.from({ length: floats.count }, (_, i) => ({
    timeMillis: floats.timestampMillis[i]!,
    value: floats.values[i]!,
  }));
  for (const [i, histogram] of histograms.histograms.entries()) {
    points.push({ timeMillis: histograms.timestampMillis[i]!, value: histogram });
  }
  return { labels, points: points.sort((a, b) => a.timeMillis - b.timeMillis) };
}

function plainRows(matrix: Matrix, timeOf: (step: number) => number): PlainSeries[] {
  return matrix.labels.map((labels, index) => {
    const points: PlainPoint[] = [];
    for (let step = 0; step < matrix.stepCount; step++) {
      const cell = index * matrix.stepCount + step;
      if (isAbsent(matrix.buffer.words, cell)) continue;
      const value = histogramOf(matrix.buffer, cell) ?? matrix.buffer.values[cell]!;
      points.push({ timeMillis: timeOf(step), value });
    }
    return { labels, points };
  });
}
