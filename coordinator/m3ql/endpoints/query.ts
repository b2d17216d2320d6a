/** Instant and range queries in M3QL; answers have the shape of those to PromQL. */
import type { Turning } from '#engine/aside/aside.ts';
import type { Clock, Random } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import type { FetchedSeries, FetchRequest } from '../../graphite/evaluate/context.ts';
import type { Reading } from '../../graphite/storage/reader.ts';
import { Zone } from '../../graphite/time/zone.ts';
import {
  type ApiAnswer,
  type ApiRequest,
  bothNames,
  jsonContentType,
} from '../../http/http_api.ts';
import { answerHeaders } from '../../reads/answer_headers.ts';
import { lookbackMillisOf, type QuerySettings, readOptionsOf } from '../../reads/options.ts';
import { returnedPart, toldOfPart } from '../../reads/returned.ts';
import { checkRangeMillis, requiredText, stepParameter } from '../../http/parameters.ts';
import { checkSteps, rangeTimesOf, timeMillisOf } from '../../reads/query_times.ts';
import { QueryResult, writeResultJson } from '../../promql/engine.ts';
import type { QueryValue } from '../../promql/evaluate/result.ts';
import { Pacer } from '../../promql/rows/pacer.ts';
import type { Matrix } from '../../promql/rows/rows.ts';
import type { SelectLimits } from '../../select/storage.ts';
import { gridInMillis, matrixOf } from '../evaluate/answer.ts';
import { evaluateScript, type ScriptGrid } from '../evaluate/evaluate.ts';
import { scriptReading } from '../storage/reading.ts';
import { scriptEngineName } from './engine_choice.ts';

/** Where series come from, and what was missing of them. */
interface ScriptSource {
  fetch(
    requests: readonly FetchRequest[],
    signal: AbortSignal,
  ): Promise<readonly (readonly FetchedSeries[])[]>;
  readonly warnings: ReadonlySet<string>;
  readonly isExhaustive: boolean;
  /** Names of tags that the answer leaves out. */
  readonly hidden: ReadonlySet<string>;
}

export interface ScriptSetup {
  readonly source: (
    request: ApiRequest,
    limits: SelectLimits,
    pacer: Pacer,
    reading: Reading,
  ) => ScriptSource;
  readonly settings: QuerySettings;
  /** Rows that one request may hold in memory. */
  readonly samplesMax: number;
  /** Between the rows of an instant query that names no step. */
  readonly stepSeconds: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly turningOf: (signal: AbortSignal) => Turning;
}

interface ScriptCall {
  readonly script: string;
  readonly grid: ScriptGrid;
  readonly lookbackMillis: number;
  /** The last row alone is answered. */
  readonly isInstant: boolean;
}

export async function scriptRange(
  setup: ScriptSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const script = requiredText(parameters, 'query');
  const { startMillis, endMillis, stepMillis } = rangeTimesOf(setup, request, parameters);
  const stepSeconds = wholeSeconds(stepMillis);
  // A row is what came since the one before it, unless the request says how far back it may lie.
  const settings = { ...setup.settings, lookbackMillis: stepMillis };
  const lookbackMillis = lookbackMillisOf(parameters, stepMillis, settings);
  const startSeconds = Math.floor(startMillis / 1_000);
  const rowCount = Math.floor((endMillis / 1_000 - startSeconds) / stepSeconds) + 1;
  const grid = { startSeconds, stepSeconds, rowCount };
  return await answer(setup, request, parameters, {
    script,
    grid,
    lookbackMillis,
    isInstant: false,
  });
}

/** The last row of the time that is looked back. */
export async function scriptInstant(
  setup: ScriptSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
): Promise<ApiAnswer> {
  const script = requiredText(parameters, 'query');
  const endMillis = timeMillisOf(setup.clock, parameters);
  const stepMillis =
    (parameters.get('step') ?? '') === '' ? setup.stepSeconds * 1_000 : stepParameter(parameters);
  const stepSeconds = wholeSeconds(stepMillis);
  const lookbackMillis = lookbackMillisOf(parameters, stepMillis, setup.settings);
  // What comes of two rows, as a rate, needs one before the last.
  const rowsBefore = Math.max(1, Math.floor(lookbackMillis / stepMillis));
  checkSteps(endMillis - rowsBefore * stepMillis, endMillis, stepMillis);
  const startSeconds = Math.floor(endMillis / 1_000) - rowsBefore * stepSeconds;
  const grid = { startSeconds, stepSeconds, rowCount: rowsBefore + 1 };
  return await answer(setup, request, parameters, {
    script,
    grid,
    lookbackMillis,
    isInstant: true,
  });
}

function wholeSeconds(stepMillis: number): number {
  if (stepMillis % 1_000 === 0) return stepMillis / 1_000;
  throw badRequest(`step: M3QL has steps of whole seconds: ${stepMillis / 1_000}s`);
}

async function answer(
  setup: ScriptSetup,
  request: ApiRequest,
  parameters: URLSearchParams,
  { script, grid, lookbackMillis, isInstant }: ScriptCall,
): Promise<ApiAnswer> {
  const { clock, samplesMax, settings } = setup;
  const options = readOptionsOf(request, parameters, settings);
  const { timeoutMillis, limits, rangeMillisMax, returned } = options;
  const { work } = setup.turningOf(clock.deadline(timeoutMillis, request.signal));
  const pacer = new Pacer(work, samplesMax, request.readMemory);
  const reading = scriptReading(grid.stepSeconds, lookbackMillis);
  const source = setup.source(request, limits, pacer, reading);
  const startMillis = clock.monotonicMillis();
  let seriesCount = 0;
  const list = await evaluateScript(script, grid, {
    time: { nowSeconds: Math.floor(clock.nowMillis() / 1_000), zone: new Zone('UTC') },
    limits: { seriesMax: seriesMaxOf(limits), rowsMax: samplesMax },
    work,
    random: () => setup.random.fraction(),
    fetch: async (requests, signal) => {
      for (const { fromSeconds, untilSeconds } of requests) {
        const stepsMillis = 1_000 * (untilSeconds - fromSeconds - grid.stepSeconds);
        checkRangeMillis(stepsMillis + lookbackMillis, rangeMillisMax);
      }
      const lists = await source.fetch(requests, signal);
      for (const read of lists) seriesCount += read.length;
      return lists;
    },
    memory: pacer.rowMemory,
    findEvents: null,
    variables: new Map(),
  });
  const rows = isInstant ? lastRowOf(grid) : grid;
  const matrix = await matrixOf(list, rows, pacer);
  const evaluationMillis = clock.monotonicMillis() - startMillis;
  const warnings = [...source.warnings];
  const result = new QueryResult(
    valueOf(matrix, rows, isInstant),
    warnings,
    [],
    source.isExhaustive,
    {
      timings: { preparationMillis: 0, evaluationMillis, sortMillis: 0 },
      samples: null,
      grid: gridInMillis(rows),
      decodedSamples: 0,
      selectedSeries: seriesCount,
      heldSamples: pacer.samples,
    },
  );
  const told = toldOfPart(returnedPart(result, returned));
  return {
    status: 200,
    headers: {
      'Content-Type': jsonContentType,
      ...bothNames('Engine', scriptEngineName),
      ...answerHeaders({
        timeoutMillis,
        seriesLimited: !source.isExhaustive,
        warnings,
        seriesCount,
        read: limits.read,
      }),
      ...told.headers,
    },
    body: writeResultJson(result, { hidden: source.hidden, ...told }),
  };
}

/** Of all that is read together. What may be answered in part is cut where it is read. */
function seriesMaxOf({ seriesMax, requireExhaustive }: SelectLimits): number {
  return requireExhaustive && seriesMax > 0 ? seriesMax : Number.POSITIVE_INFINITY;
}

function lastRowOf({ startSeconds, stepSeconds, rowCount }: ScriptGrid): ScriptGrid {
  return { startSeconds: startSeconds + stepSeconds * (rowCount - 1), stepSeconds, rowCount: 1 };
}

function valueOf(matrix: Matrix, rows: ScriptGrid, isInstant: boolean): QueryValue {
  if (!isInstant) return { kind: 'matrix', grid: gridInMillis(rows), matrix };
  return { kind: 'vector', timeMillis: rows.startSeconds * 1_000, matrix };
}
