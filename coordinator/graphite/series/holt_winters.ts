/**
 * Triple exponential smoothing (Holt and Winters) with a season: a level, a slope and what each row of the
 * season is apart from the level, each of them going a little towards what the newest value says.
 */
import { inParts, madeColumns, type RowMaker } from './making.ts';
import type { Columns } from './series.ts';

const levelWeight = 0.1;
const slopeWeight = 0.0035;
const seasonWeight = 0.1;

export interface Forecast {
  /** What was expected of each row before it was known. */
  readonly predictions: Columns;
  /** How far values usually are from the prediction. */
  readonly deviations: Columns;
}

/**
 * @param seasonRows rows of a season, at least 2
 */
export async function holtWinters(
  columns: Columns,
  seasonRows: number,
  maker: RowMaker,
): Promise<Forecast> {
  const { length } = columns.values;
  const predictions = await madeColumns(length, maker);
  const deviations = await madeColumns(length, maker);
  // Of the seasons, which nobody needs behind the last row.
  await maker.reserve(length);
  deviations.present.fill(1);
  const seasons = new Float64Array(length);
  const state: State = { level: 0, slope: 0, hasLevel: false, next: null };
  await inParts(length, maker.work, (first, past) => {
    smooth(columns, seasonRows, { predictions, deviations }, seasons, state, first, past);
  });
  maker.release(length);
  return { predictions, deviations };
}

/** What is known behind a row. */
interface State {
  level: number;
  slope: number;
  hasLevel: boolean;
  /** What is expected of the next one; null when nothing is. */
  next: number | null;
}

function smooth(
  { values, present }: Columns,
  seasonRows: number,
  { predictions, deviations }: Forecast,
  seasons: Float64Array,
  state: State,
  first: number,
  past: number,
): void {
  let { level, slope, hasLevel, next } = state;
  for (let i = first; i < past; i++) {
    const before = i - seasonRows;
    if (i > 0 && next !== null) {
      predictions.values[i] = next;
      predictions.present[i] = 1;
    }
    if (present[i] === 0) {
      // Nothing can be said of the row behind a gap.
      next = null;
      hasLevel = false;
      slope = 0;
      continue;
    }
    const value = values[i]!;
    if (i === 0) {
      predictions.values[0] = value;
      predictions.present[0] = 1;
    }
    const season = before >= 0 ? seasons[before]! : 0;
    const lastLevel = hasLevel ? level : value;
    level = levelWeight * (value - season) + (1 - levelWeight) * (lastLevel + slope);
    slope = slopeWeight * (level - lastLevel) + (1 - slopeWeight) * slope;
    hasLevel = true;
    seasons[i] = seasonWeight * (value - level) + (1 - seasonWeight) * season;
    const lastDeviation = before >= 0 ? deviations.values[before]! : 0;
    const error = Math.abs(value - predictions.values[i]!);
    deviations.values[i] = seasonWeight * error + (1 - seasonWeight) * lastDeviation;
    next = level + slope + (before + 1 >= 0 ? seasons[before + 1]! : 0);
  }
  Object.assign(state, { level, slope, hasLevel, next });
}
