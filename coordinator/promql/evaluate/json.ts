/** Results as JSON of the Prometheus API, in pieces; the caller's reading is the backpressure. */
import type { FloatHistogram } from '#engine/histograms/float_histogram.ts';
import { BucketWalk } from '#engine/histograms/walk.ts';
import { AnswerPieces } from '../../http/answer_pieces.ts';
import type { Grid } from '../plan/plan.ts';
import { type Cells, copyCells, dropHistograms, histogramOf, makeCells } from '../rows/cells.ts';
import type { Labels } from '../rows/labels.ts';
import { hasValue } from '../rows/rows.ts';
import { formatNumber, formatSample } from '#engine/window_functions/number_format.ts';
import { RowPrinter } from '#engine/window_functions/row_printer.ts';
import type { QueryResult, QueryValue, RawSeries } from './result.ts';

/** Made when the first matrix is printed. */
let printer: RowPrinter | null = null;

/** Of the grid that came last: panels of a dashboard have one. */
let lastPrefixes: { readonly grid: Grid; readonly prefixes: readonly string[] } | null = null;
/** Those of more steps are not kept. */
const keptStepsMax = 11_001;

/** What stands before the value of each step. */
function prefixesOf(grid: Grid): readonly string[] {
  const { startMillis, stepMillis, stepCount } = grid;
  const last = lastPrefixes?.grid;
  const isLast =
    last?.startMillis === startMillis &&
    last.stepMillis === stepMillis &&
    last.stepCount === stepCount;
  if (isLast) return lastPrefixes!.prefixes;
  const prefixes = Array.from(
    { length: stepCount },
    (_, step) => `,[${formatTime(startMillis + step * stepMillis)},"`,
  );
  if (stepCount <= keptStepsMax) lastPrefixes = { grid, prefixes };
  return prefixes;
}

/** Seconds with exactly three digits after the point, or none. */
export function formatTime(millis: number): string {
  const sign = millis < 0 ? '-' : '';
  const size = Math.abs(millis);
  const fraction = size % 1000;
  const seconds = `${sign}${(size - fraction) / 1000}`;
  return fraction === 0 ? seconds : `${seconds}.${String(fraction).padStart(3, '0')}`;
}

function labelsJson(labels: Labels, hidden: ReadonlySet<string>): string {
  let text = '{';
  for (const { name, value } of labels.tags) {
    if (hidden.has(name)) continue;
    if (text.length > 1) text += ',';
    text += `${JSON.stringify(name)}:${JSON.stringify(value.toWellFormed())}`;
  }
  return `${text}}`;
}

type TimedHistogram = readonly [timeMillis: number, histogram: FloatHistogram];

/** Those of a row of a matrix. */
function* histogramsOf(
  buffer: Cells,
  at: number,
  { startMillis, stepMillis, stepCount }: Grid,
): Generator<TimedHistogram> {
  for (let step = 0; step < stepCount; step++) {
    const histogram = histogramOf(buffer, at + step);
    if (histogram !== null) yield [startMillis + step * stepMillis, histogram];
  }
}

function* timed({
  timestampMillis,
  histograms,
}: RawSeries['histograms']): Generator<TimedHistogram> {
  for (const [i, histogram] of histograms.entries()) yield [timestampMillis[i]!, histogram];
}

/** The numbers of a row alone. */
function floatsOf(buffer: Cells, at: number, stepCount: number): Cells {
  const row = makeCells(stepCount);
  copyCells(buffer, at, stepCount, row, 0);
  dropHistograms(row);
  return row;
}

/** Writes nothing when there is none. */
function* writeHistograms(
  all: Iterable<TimedHistogram>,
  pieces: AnswerPieces,
): Generator<Uint8Array> {
  let isFirst = true;
  for (const [timeMillis, histogram] of all) {
    pieces.add(isFirst ? ',"histograms":[' : ',');
    isFirst = false;
    pieces.add(`[${formatTime(timeMillis)},${histogramJson(histogram)}]`);
    if (pieces.isFull) yield pieces.take();
  }
  if (!isFirst) pieces.add(']');
}

/** Which bounds of a bucket belong to it. */
const boundaries = { upperAlone: 0, lowerAlone: 1, none: 2, both: 3 } as const;

function histogramJson(histogram: FloatHistogram): string {
  const { count, sum } = histogram;
  let text = `{"count":"${formatSample(count)}","sum":"${formatSample(sum)}"`;
  const walk = new BucketWalk(histogram, 'cut');
  let hasBuckets = false;
  for (let place = 0; place < walk.size; place++) {
    const { lower, upper, count: observations, hasLower, hasUpper } = walk.at(place);
    if (observations === 0) continue;
    let rule: number = hasUpper ? boundaries.upperAlone : boundaries.none;
    if (hasLower) rule = hasUpper ? boundaries.both : boundaries.lowerAlone;
    text += hasBuckets ? ',' : ',"buckets":[';
    hasBuckets = true;
    text += `[${rule},"${formatSample(lower)}","${formatSample(upper)}","${formatSample(observations)}"]`;
  }
  return hasBuckets ? `${text}]}` : `${text}}`;
}

/** What is told of a query beside its result: sums alone, or each step, too. */
export type StatsDetail = 'sums' | 'steps';

/** What goes with a result. */
export interface ResultDetail {
  readonly stats?: StatsDetail | null;
  /** Beside those of the query. */
  readonly warnings?: readonly string[];
  /** Names of labels that are left out; two series may then have the same ones. */
  readonly hidden?: ReadonlySet<string>;
  /** Those after so many are left out. */
  readonly seriesMax?: number;
}

function statsJson(
  { timings, samples, grid, heldSamples }: QueryResult['stats'],
  detail: StatsDetail,
): string {
  const { preparationMillis, evaluationMillis, sortMillis } = timings;
  const totalTime = (preparationMillis + evaluationMillis + sortMillis) / 1000;
  const ofSteps = (counts: Float64Array): (readonly [number, number])[] =>
    Array.from(counts, (count, step) => [
      (grid.startMillis + step * grid.stepMillis) / 1000,
      count,
    ]);
  const sumOf = (counts: Float64Array): number => counts.reduce((sum, each) => sum + each, 0);
  const stepsOf = (name: string, counts: Float64Array) =>
    detail === 'steps' ? { [name]: ofSteps(counts) } : {};
  return JSON.stringify({
    timings: {
      evalTotalTime: totalTime,
      resultSortTime: sortMillis / 1000,
      queryPreparationTime: preparationMillis / 1000,
      innerEvalTime: evaluationMillis / 1000,
      // Queries wait for memory while they are evaluated, not in a queue before.
      execQueueTime: 0,
      execTotalTime: totalTime,
    },
    ...(samples === null
      ? {}
      : {
          samples: {
            ...stepsOf('totalQueryableSamplesPerStep', samples.total),
            totalQueryableSamples: sumOf(samples.total),
            ...stepsOf('samplesReadPerStep', samples.read),
            samplesRead: sumOf(samples.read),
            peakSamples: heldSamples,
          },
        }),
  });
}

const nothingHidden: ReadonlySet<string> = new Set();

/** The whole body `{"status":"success","data":{...}}` in pieces of some 64 KiB. */
export async function* writeResultJson(
  result: QueryResult,
  { stats = null, warnings = [], hidden = nothingHidden, seriesMax = Infinity }: ResultDetail = {},
): AsyncGenerator<Uint8Array> {
  const pieces = new AnswerPieces();
  pieces.add(`{"status":"success","data":{"resultType":"${result.resultType}","result":`);
  yield* writeValue(result.value, pieces, { hidden, seriesMax });
  if (stats !== null) pieces.add(`,"stats":${statsJson(result.stats, stats)}`);
  pieces.add('}');
  const all = [...result.warnings, ...warnings];
  if (all.length > 0) pieces.add(`,"warnings":${JSON.stringify(all)}`);
  if (result.infos.length > 0) pieces.add(`,"infos":${JSON.stringify(result.infos)}`);
  pieces.add('}');
  yield pieces.take();
}

function* writeValue(
  value: QueryValue,
  pieces: AnswerPieces,
  { hidden, seriesMax }: Required<Pick<ResultDetail, 'hidden' | 'seriesMax'>>,
): Generator<Uint8Array> {
  switch (value.kind) {
    case 'scalar':
      pieces.add(`[${formatTime(value.timeMillis)},"${formatNumber(value.value)}"]`);
      return;
    case 'string':
      pieces.add(`[${formatTime(value.timeMillis)},${JSON.stringify(value.value.toWellFormed())}]`);
      return;
    case 'vector': {
      const time = formatTime(value.timeMillis);
      const { labels, buffer } = value.matrix;
      pieces.add('[');
      for (const [index, label] of labels.entries()) {
        if (index >= seriesMax) break;
        const histogram = histogramOf(buffer, index);
        const sample =
          histogram === null
            ? `"value":[${time},"${formatSample(buffer.values[index]!)}"]`
            : `"histogram":[${time},${histogramJson(histogram)}]`;
        pieces.add(`${index === 0 ? '' : ','}{"metric":${labelsJson(label, hidden)},${sample}}`);
        if (pieces.isFull) yield pieces.take();
      }
      pieces.add(']');
      return;
    }
    case 'matrix': {
      const { grid, matrix } = value;
      const prefixes = prefixesOf(grid);
      printer ??= new RowPrinter();
      pieces.add('[');
      for (const [index, label] of matrix.labels.entries()) {
        if (index >= seriesMax) break;
        const at = index * grid.stepCount;
        const { buffer } = matrix;
        pieces.add(`${index === 0 ? '' : ','}{"metric":${labelsJson(label, hidden)}`);
        const floats = buffer.histograms === null ? null : floatsOf(buffer, at, grid.stepCount);
        if (floats === null || hasValue(floats, 0, grid.stepCount)) {
          pieces.add(',"values":[');
          let isFirst = true;
          printer.print(floats ?? buffer, floats === null ? at : 0, prefixes, (bytes) => {
            // The first pair has no comma in front.
            pieces.addBytes(isFirst ? bytes.subarray(1) : bytes);
            isFirst = false;
          });
          pieces.add(']');
        }
        if (floats !== null) yield* writeHistograms(histogramsOf(buffer, at, grid), pieces);
        pieces.add('}');
        if (pieces.isFull) yield pieces.take();
      }
      pieces.add(']');
      return;
    }
    case 'rawMatrix': {
      pieces.add('[');
      for (const [index, series] of value.series.entries()) {
        if (index >= seriesMax) break;
        pieces.add(`${index === 0 ? '' : ','}{"metric":${labelsJson(series.labels, hidden)}`);
        const { timestampMillis, values, count } = series.floats;
        if (count > 0) {
          pieces.add(',"values":[');
          for (let i = 0; i < count; i++) {
            const time = formatTime(timestampMillis[i]!);
            pieces.add(`${i === 0 ? '' : ','}[${time},"${formatSample(values[i]!)}"]`);
            if (pieces.isFull) yield pieces.take();
          }
          pieces.add(']');
        }
        yield* writeHistograms(timed(series.histograms), pieces);
        pieces.add('}');
      }
      pieces.add(']');
    }
  }
}
