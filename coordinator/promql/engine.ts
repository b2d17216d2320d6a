/** The PromQL engine: parse, plan, one round of reads, execute; `info` reads more while it is executed. */
import { sortPaced } from '#lib/turns/paced.ts';
import { isAbsent } from '#engine/window_functions/row.ts';
import { type Aside, onTheLoop } from '#engine/aside/aside.ts';
import { Decoder } from '#engine/store/decoder.ts';
import { WindowsKernel } from '#engine/window_functions/kernel.ts';
import type { WindowEvaluator } from '#engine/window_functions/windows.ts';
import {
  ExtendedWindows,
  type WindowExtension,
} from '#engine/histograms/windows/extended_windows.ts';
import type { FloatHistogram } from '#engine/histograms/float_histogram.ts';
import type { Clock } from '#lib/env/env.ts';
import { ChildSignal } from '#lib/env/wait.ts';
import { badRequest } from '#lib/errors.ts';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { formatDurationNanos } from '#lib/time.ts';
import { Turns } from '#lib/turns/turns.ts';
import type { QueryStorage, SelectLimits } from '../select/storage.ts';
import { Annotations } from './rows/annotations.ts';
import { documentedType, type Expr, typeOf } from './parse/ast.ts';
import type { Context } from './rows/context.ts';
import { executionError, PromqlError } from './words/errors.ts';
import { Executor } from './evaluate/execute.ts';
import { type Fetched, Reads } from './rows/reads.ts';
import { bytesOfHistogram, copyCells } from './rows/cells.ts';
import { Pacer } from './rows/pacer.ts';
import { noFeatures, type PromqlFeatures } from './parse/features.ts';
import { ParsedQueries } from './parse/parsed_queries.ts';
import { readsOfQuery, timeOfRead, type TimesOfQuery } from './parse/selectors.ts';
import { planQuery } from './plan/planner.ts';
import { withoutLostNames } from './rows/names.ts';
import type { Grid, QueryPlan, RangeVectorPlan, Source } from './plan/plan.ts';
import {
  floatPartsOf,
  histogramUnits,
  readSeriesRows,
  readStoredRows,
} from './windows/stored_rows.ts';
import { windowRequest } from './windows/selector_rows.ts';
import { countSamples, type QuerySamples } from './evaluate/query_samples.ts';
import { QueryResult } from './evaluate/result.ts';
import { columnsOf } from './windows/subquery.ts';
import type { QueryValue, RawSeries } from './evaluate/result.ts';
import { rowsOfScalar } from './rows/row_values.ts';
import { Matrix, hasValue, materialize, type Rows } from './rows/rows.ts';

export { parseSelectors } from './parse/parser.ts';
export { PromqlError } from './words/errors.ts';
export { type StatsDetail, writeResultJson } from './evaluate/json.ts';
export { QueryResult } from './evaluate/result.ts';

export interface QueryOptions {
  /** How far back an instant selector looks for a sample. */
  readonly lookbackMillis: number;
  /** Without one only the signal ends the query. */
  readonly timeoutMillis?: number;
  /** Samples that the query may hold in memory at once. */
  readonly samplesMax: number;
  /** Longest time that a selector may read, with what it looks back; 0, and without one, there is no limit. */
  readonly rangeMillisMax?: number;
  /** Whether it is told how many samples each step reads, which takes about as long as the query. */
  readonly countsSamples?: boolean;
  /** What the query takes until its answer has left is `limits.memory`. */
  readonly limits: SelectLimits;
  /** In the place of the engine's. */
  readonly storage?: QueryStorage;
}

export interface EngineOptions {
  readonly clock: Clock;
  readonly features?: Partial<PromqlFeatures>;
  /** For tests; the fastest one is the default. */
  readonly windows?: WindowEvaluator;
  /** For what cannot be divided; without one it holds up all others. */
  readonly aside?: Aside;
}

interface QueryTimes {
  readonly grid: Grid;
  /** Of a range query, also when no step ends there; null of an instant query. */
  readonly endMillis: number | null;
}

export class PromqlEngine {
  readonly features: PromqlFeatures;
  readonly #storage: QueryStorage;
  readonly #clock: Clock;
  readonly #queries: ParsedQueries;
  readonly #windows: WindowEvaluator;
  readonly #aside: Aside;

  constructor(storage: QueryStorage, options: EngineOptions) {
    this.#storage = storage;
    this.#clock = options.clock;
    this.features = { ...noFeatures, ...options.features };
    this.#queries = new ParsedQueries(this.features);
    this.#windows = options.windows ?? new WindowsKernel();
    this.#aside = options.aside ?? onTheLoop;
  }

  /**
   * Evaluates at start, start + step, … up to and including end.
   * @throws {PromqlError} bad_data or execution; {TsdbError} of storage, DEADLINE_EXCEEDED,
   * CANCELLED
   */
  async rangeQuery(
    query: string,
    startMillis: number,
    endMillis: number,
    stepMillis: number,
    options: QueryOptions,
    signal: AbortSignal,
  ): Promise<QueryResult> {
    if (!(stepMillis > 0)) {
      throw new PromqlError(
        'bad_data',
        `zero or negative query resolution step widths are not accepted: ${stepMillis}`,
      );
    }
    if (endMillis < startMillis) {
      throw new PromqlError(
        'bad_data',
        `end timestamp must not be before start time: ${endMillis}`,
      );
    }
    const step = Math.max(1, Math.round(stepMillis));
    const start = Math.floor(startMillis);
    const grid: Grid = {
      startMillis: start,
      stepMillis: step,
      stepCount: Math.floor((Math.floor(endMillis) - start) / step) + 1,
    };
    return this.#run(query, { grid, endMillis: Math.floor(endMillis) }, options, signal);
  }

  /** @throws as `rangeQuery` */
  async instantQuery(
    query: string,
    timeMillis: number,
    options: QueryOptions,
    signal: AbortSignal,
  ): Promise<QueryResult> {
    const grid = { startMillis: Math.floor(timeMillis), stepMillis: 0, stepCount: 1 };
    return this.#run(query, { grid, endMillis: null }, options, signal);
  }

  async #run(
    query: string,
    times: QueryTimes,
    options: QueryOptions,
    signal: AbortSignal,
  ): Promise<QueryResult> {
    if (options.timeoutMillis === undefined) {
      return this.#evaluate(query, times, options, signal);
    }
    // Its end ends the deadline's timer.
    const own = new ChildSignal(signal);
    const deadline = this.#clock.deadline(options.timeoutMillis, own.signal);
    try {
      return await this.#evaluate(query, times, options, deadline);
    } finally {
      own.end();
    }
  }

  async #evaluate(
    query: string,
    { grid, endMillis }: QueryTimes,
    options: QueryOptions,
    deadline: AbortSignal,
  ): Promise<QueryResult> {
    const isRangeQuery = endMillis !== null;
    const begunMillis = this.#clock.monotonicMillis();
    const work = Turns.of(this.#clock).begin(deadline);
    const expr = await this.#queries.parse(query, { work, aside: this.#aside });
    const type = typeOf(expr);
    if (isRangeQuery && type !== 'vector' && type !== 'scalar') {
      throw new PromqlError(
        'bad_data',
        `invalid expression type ${JSON.stringify(documentedType[type])} for range query, must be Scalar or instant Vector`,
      );
    }
    deadline.throwIfAborted();
    checkReads(expr, { ...grid, endMillis: endMillis ?? grid.startMillis }, options);
    const { limits, storage = this.#storage } = options;
    const pacer = new Pacer(work, options.samplesMax, limits.memory ?? unlimitedReadBytes);
    if (pacer.hold(grid.stepCount)) await pacer.room();
    const plan = planQuery(expr, {
      timeline: storage.timeline?.() ?? null,
      query,
      grid,
      endMillis: endMillis ?? grid.startMillis,
      lookbackMillis: options.lookbackMillis,
      isRangeQuery,
      stepsMax: options.samplesMax,
    });
    const reads = new Reads(storage, limits, pacer, this.features);
    const fetched = await reads.read(plan.fetches);
    const annotations = new Annotations(query);
    annotations.tell(plan.notes);
    annotations.tellScales(
      plan.values,
      fetched.map(({ scales }) => scales),
    );
    const context: Context = {
      query,
      pacer,
      annotations,
      windows: this.#windows,
      aside: this.#aside,
      fetched,
      reads,
      isRangeQuery,
      features: this.features,
      stats: { decodedSamples: 0 },
    };
    const readMillis = this.#clock.monotonicMillis();
    const { value, sortMillis } = await this.#value(plan, type === 'scalar', context);
    const evaluatedMillis = this.#clock.monotonicMillis();
    const samples = options.countsSamples === true ? await counted(plan, options, context) : null;
    for (const each of fetched) reads.release(each);
    const warnings = new Set<string>(reads.warnings);
    for (const warning of annotations.warnings()) warnings.add(warning);
    return new QueryResult(value, [...warnings], annotations.infos(), reads.isExhaustive, {
      timings: {
        preparationMillis: readMillis - begunMillis,
        evaluationMillis: evaluatedMillis - readMillis - sortMillis,
        sortMillis,
      },
      samples,
      grid,
      decodedSamples: context.stats.decodedSamples,
      selectedSeries: reads.seriesCount,
      heldSamples: pacer.samples,
    });
  }

  async #value(
    plan: QueryPlan,
    isScalar: boolean,
    context: Context,
  ): Promise<{ readonly value: QueryValue; readonly sortMillis: number }> {
    const unsorted = (value: QueryValue) => ({ value, sortMillis: 0 });
    const { root } = plan;
    const executor = new Executor(context);
    const { grid } = root;
    if (root.kind === 'string') {
      return unsorted({ kind: 'string', timeMillis: grid.startMillis, value: root.value });
    }
    if (root.kind === 'rangeVector') {
      return unsorted({ kind: 'rawMatrix', series: await rawSeries(root, executor) });
    }
    if (isScalar) {
      const values = await executor.scalar(root);
      if (context.isRangeQuery) {
        return unsorted({ kind: 'matrix', grid, matrix: rowsOfScalar(values) as Matrix });
      }
      return unsorted({ kind: 'scalar', timeMillis: grid.startMillis, value: values[0]! });
    }
    const { pacer } = context;
    const found = await withoutLostNames(await executor.vector(root), context);
    const rows = await withoutEmpty(await materialize(found, pacer), pacer);
    if (!context.isRangeQuery) {
      return unsorted({ kind: 'vector', timeMillis: grid.startMillis, matrix: rows });
    }
    const begunMillis = this.#clock.monotonicMillis();
    const matrix = await sortByLabels(rows, pacer);
    const sortMillis = this.#clock.monotonicMillis() - begunMillis;
    return { value: { kind: 'matrix', grid, matrix }, sortMillis };
  }
}

/** @throws {TsdbError} BAD_REQUEST when a selector reads a longer time than it may */
function checkReads(
  expr: Expr,
  times: TimesOfQuery,
  { rangeMillisMax = 0, lookbackMillis }: QueryOptions,
): void {
  if (rangeMillisMax === 0) return;
  for (const read of readsOfQuery(expr)) {
    const { startMillis, endMillis } = timeOfRead(read, times, lookbackMillis);
    if (endMillis - startMillis <= rangeMillisMax) continue;
    const shown = (millis: number): string => formatDurationNanos(BigInt(Math.round(millis * 1e6)));
    throw badRequest(
      `query exceeded limit: a selector reads ${shown(endMillis - startMillis)}, with what it looks back, which is longer than ${shown(rangeMillisMax)}`,
    );
  }
}

/** By a walk of its own: what it holds meanwhile and what it has to tell are not the query's. */
function counted(
  { root }: QueryPlan,
  { samplesMax, limits }: QueryOptions,
  context: Context,
): Promise<QuerySamples> {
  const pacer = new Pacer(context.pacer.work, samplesMax, limits.memory ?? unlimitedReadBytes);
  const annotations = new Annotations(context.query);
  const stats = { decodedSamples: 0 };
  return countSamples(root, new Executor({ ...context, pacer, annotations, stats }));
}

/** Series without any value are not part of a result. */
async function withoutEmpty(matrix: Matrix, pacer: Pacer): Promise<Matrix> {
  const { stepCount } = matrix;
  const kept: number[] = [];
  for (let index = 0; index < matrix.count; index++) {
    if (hasValue(matrix.buffer, index * stepCount, stepCount)) kept.push(index);
    if (pacer.spend(0)) await pacer.pause();
  }
  return kept.length === matrix.count ? matrix : pickRows(matrix, kept, pacer);
}

async function sortByLabels(matrix: Matrix, pacer: Pacer): Promise<Matrix> {
  const { labels } = matrix;
  const order = await sortPaced(
    labels.map((_, index) => index),
    (a, b) => labels[a]!.compare(labels[b]!),
    pacer.work,
  );
  return order.every((index, place) => index === place) ? matrix : pickRows(matrix, order, pacer);
}

async function pickRows(matrix: Matrix, indexes: readonly number[], pacer: Pacer): Promise<Matrix> {
  const { stepCount } = matrix;
  if (pacer.take(8 * indexes.length * stepCount)) await pacer.room();
  const picked = Matrix.unwritten(
    indexes.map((index) => matrix.labels[index]!),
    stepCount,
  );
  for (const [target, index] of indexes.entries()) {
    copyCells(matrix.buffer, index * stepCount, stepCount, picked.buffer, target * stepCount);
    if (pacer.spend(stepCount)) await pacer.pause();
  }
  pacer.give(8 * matrix.count * stepCount);
  return picked;
}

/** The samples of a range selector or a subquery as they are. */
async function rawSeries(plan: RangeVectorPlan, executor: Executor): Promise<RawSeries[]> {
  const { source } = plan;
  const { pacer, fetched } = executor.context;
  const series: RawSeries[] = [];
  if (source.kind === 'subquery') {
    const changed = (rows: Rows): Promise<Rows> => withoutLostNames(rows, executor.context);
    for (const column of await columnsOf(source, executor, changed)) {
      const { labels, times, values, count, histogramTimes, histograms } = column;
      const floats = { timestampMillis: times, values, count };
      series.push({ labels, floats, histograms: { timestampMillis: histogramTimes, histograms } });
    }
  } else {
    const of = fetched[source.fetch]!;
    using decoder = new Decoder();
    const rawOf = (index: number): Promise<RawSeries> => {
      const { extension } = source;
      if (extension !== null) return extendedRaw(source, extension, index, executor.context);
      if (of.isTyped?.[index] === 1) return mixedRaw(of, index, pacer);
      return floatsRaw(of, index, decoder, pacer);
    };
    for (let index = 0; index < of.labels.length; index++) {
      const found = await rawOf(index);
      if (found.floats.count > 0 || found.histograms.histograms.length > 0) series.push(found);
    }
  }
  return sortPaced(series, (a, b) => a.labels.compare(b.labels), pacer.work);
}

const noSamples = { timestampMillis: new Float64Array(0), values: new Float64Array(0) };
const noHistograms = { timestampMillis: new Float64Array(0), histograms: [] };

async function floatsRaw(
  { fetch, bundle, labels }: Fetched,
  index: number,
  decoder: Decoder,
  pacer: Pacer,
): Promise<RawSeries> {
  const { rowsMax, ranges } = floatPartsOf(bundle, index, fetch.range);
  const rowBytes = 16;
  if (pacer.take(rowBytes * rowsMax)) await pacer.room();
  const values = new Float64Array(rowsMax);
  const words = new Uint32Array(values.buffer);
  const timestampMillis = new Float64Array(rowsMax);
  let count = 0;
  for (const [from, to] of ranges) {
    const rowCount = decoder.decode(bundle, index, from, to);
    for (let row = 0; row < rowCount; row++) {
      if (isAbsent(decoder.valueWords, row)) continue;
      timestampMillis[count] = decoder.timestampMillis[row]!;
      words[2 * count] = decoder.valueWords[2 * row]!;
      words[2 * count + 1] = decoder.valueWords[2 * row + 1]!;
      count++;
    }
    if (pacer.spend(2 * rowCount)) await pacer.pause();
  }
  // The memory has been taken.
  pacer.hold(count, 0);
  return {
    labels: labels[index]!,
    floats: { timestampMillis, values, count },
    histograms: noHistograms,
  };
}

/**
 * With samples at the edges of the range.
 * @throws {PromqlError} when there are histograms
 */
async function extendedRaw(
  source: Source,
  extension: WindowExtension,
  index: number,
  { fetched, pacer }: Context,
): Promise<RawSeries> {
  const selected = fetched[source.fetch]!;
  using held = await readStoredRows(selected, index, pacer);
  const { rows } = held;
  if (rows.histograms.count > 0) {
    throw executionError(`${extension.kind} modifier is not supported with histograms`);
  }
  const once = { startMillis: source.referenceStartMillis, stepMillis: 0, stepCount: 1 };
  const request = windowRequest('delta', source, once, []);
  const samples = new ExtendedWindows(request, extension, rows).samples();
  const { timestampMillis, values } = samples ?? noSamples;
  if (pacer.hold(values.length, 16)) await pacer.room();
  const floats = { timestampMillis, values, count: values.length };
  return { labels: selected.labels[index]!, floats, histograms: noHistograms };
}

/** Of a series that has histograms. */
async function mixedRaw(
  { fetch, bundle: { chunkData, chunkOffset }, labels }: Fetched,
  index: number,
  pacer: Pacer,
): Promise<RawSeries> {
  const { startNanos, endNanos } = fetch.range;
  const chunks = chunkData.subarray(chunkOffset[index]!, chunkOffset[index + 1]!);
  using held = await readSeriesRows(chunks, [startNanos, endNanos], pacer);
  const { rows } = held;
  if (pacer.hold(rows.floats.length, 16)) await pacer.room();
  const histograms: FloatHistogram[] = [];
  for (let place = 0; place < rows.histograms.count; place++) {
    const histogram = rows.histograms.at(place);
    if (pacer.hold(1, bytesOfHistogram(histogram))) await pacer.room();
    histograms.push(histogram);
    if (pacer.spend(histogramUnits)) await pacer.pause();
  }
  return {
    labels: labels[index]!,
    floats: {
      timestampMillis: rows.floatMillis,
      values: rows.floats,
      count: rows.floats.length,
    },
    histograms: { timestampMillis: rows.histogramMillis, histograms },
  };
}
