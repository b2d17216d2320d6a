/** The answer of a query. */
import { isAbsent } from '#engine/window_functions/row.ts';
import type { RowBuffer } from '#engine/window_functions/row.ts';
import type { Labels } from '../rows/labels.ts';
import type { Grid } from '../plan/plan.ts';
import type { Matrix } from '../rows/rows.ts';

/** Samples of one series of a range vector. */
export interface RawSeries {
  readonly labels: Labels;
  readonly timestampMillis: Float64Array;
  readonly buffer: RowBuffer;
  readonly count: number;
}

export type QueryValue =
  | { readonly kind: 'scalar'; readonly timeMillis: number; readonly value: number }
  | { readonly kind: 'string'; readonly timeMillis: number; readonly value: string }
  /** One step. */
  | { readonly kind: 'vector'; readonly timeMillis: number; readonly matrix: Matrix }
  /** Series in the order of their labels. */
  | { readonly kind: 'matrix'; readonly grid: Grid; readonly matrix: Matrix }
  | { readonly kind: 'rawMatrix'; readonly series: readonly RawSeries[] };

export interface QueryStats {
  /** Rows decoded, counted each time. */
  readonly decodedSamples: number;
  readonly selectedSeries: number;
  /** Samples held in memory at the end. */
  readonly heldSamples: number;
}

/** A sample for tests and small callers. */
export interface PlainSeries {
  readonly labels: Labels;
  readonly points: readonly { readonly timeMillis: number; readonly value: number }[];
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
        return value.series.map(({ labels, timestampMillis, buffer, count }) => ({
          labels,
          points: Array.from({ length: count }, (_, i) => ({
            timeMillis: timestampMillis[i]!,
            value: buffer.values[i]!,
          })),
        }));
    }
  }
}

function plainRows(matrix: Matrix, timeOf: (step: number) => number): PlainSeries[] {
  return matrix.labels.map((labels, index) => {
    const points: { timeMillis: number; value: number }[] = [];
    for (let step = 0; step < matrix.stepCount; step++) {
      const cell = index * matrix.stepCount + step;
      if (isAbsent(matrix.buffer.words, cell)) continue;
      points.push({ timeMillis: timeOf(step), value: matrix.buffer.values[cell]! });
    }
    return { labels, points };
  });
}
