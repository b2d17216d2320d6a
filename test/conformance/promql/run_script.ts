/** Runs a promqltest script on the engine as promqltest does, and lists what differs. */
import { type PromqlEngine, writeResultJson } from '#coordinator/promql/engine.ts';
import type { PlainSeries, QueryResult } from '#coordinator/promql/evaluate/result.ts';
import { PromqlError } from '#coordinator/promql/words/errors.ts';
import type { FloatHistogram } from '#engine/histograms/float_histogram.ts';
import { textOf } from '#engine/histograms/text.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { encodeTags } from '#lib/tags.ts';
import { pinnedQueries, type TimedQuery } from './pinned_queries.ts';
import type { MemoryStorage } from './memory_storage.ts';
import { type Command, type Expectation, parseScript, type TextCheck } from './script.ts';
import type { ScriptValue } from './script_values.ts';

export interface ScriptOutcome {
  evaluated: number;
  passed: number;
  failures: string[];
}

type Eval = Extract<Command, { kind: 'eval' }>;

/** @param isWanted leaves out evaluations */
export async function runScript(
  text: string,
  storage: MemoryStorage,
  engine: PromqlEngine,
  isWanted: (expr: string) => boolean = () => true,
): Promise<ScriptOutcome> {
  const outcome: ScriptOutcome = { evaluated: 0, passed: 0, failures: [] };
  for (const command of parseScript(text)) {
    if (command.kind === 'clear') storage.clear();
    else if (command.kind === 'load') {
      // Of a series that stands twice in one load the last line counts.
      const lines = new Map(
        command.series.map((line) => [Buffer.from(encodeTags(line.tags)).toString('latin1'), line]),
      );
      for (const { tags, values, startMillis } of lines.values()) {
        for (const [index, value] of values.entries()) {
          if (value === null) continue;
          const millis = index * command.stepMillis;
          const start = startMillis?.[index] ?? null;
          const sample = typeof value === 'bigint' ? value : value.histogram;
          storage.add(tags, millis, sample, start === null ? 0 : millis + start);
        }
      }
    } else if (isWanted(command.expr)) {
      outcome.evaluated++;
      const problem = await evaluate(command, engine);
      if (problem === null) outcome.passed++;
      else outcome.failures.push(`line ${command.line}: ${command.expr}\n    ${problem}`);
    }
  }
  return outcome;
}

const queryOptions = {
  lookbackMillis: 300_000,
  samplesMax: 50_000_000,
  limits: { seriesMax: 0, requireExhaustive: true },
};
const minuteMillis = 60_000;

/** Of an instant query also with all selectors pinned, at several times, and each of them as a step of a range. */
async function evaluate(command: Eval, engine: PromqlEngine): Promise<string | null> {
  const { expr, startMillis, stepMillis } = command;
  if (stepMillis !== 0) return evaluateRange(command, engine);
  const first: TimedQuery = { query: expr, timeMillis: startMillis };
  const problem = await evaluateInstant(command, first, engine);
  if (problem !== null) return problem;
  for (const pinned of await pinnedQueries(first, engine)) {
    const difference = await evaluateInstant(command, pinned, engine);
    if (difference !== null) {
      return `${pinned.query} at ${pinned.timeMillis}: ${difference}`;
    }
  }
  return null;
}

async function evaluateRange(command: Eval, engine: PromqlEngine): Promise<string | null> {
  const { expr, startMillis, endMillis, stepMillis, expect } = command;
  const result = await outcomeOf(() =>
    engine.rangeQuery(expr, startMillis, endMillis, stepMillis, queryOptions, signal),
  );
  if (result instanceof TsdbError) return checkFailure(expect, result);
  if (expect.fail !== null) return 'does not fail';
  const problem = checkAnnotations(expect, result);
  if (problem !== null) return problem;
  if (result.value.kind !== 'matrix') return `is a ${result.value.kind}, not a matrix`;
  const series = result.series();
  const sorted = checkSorted(series);
  if (sorted !== null) return sorted;
  return compareSeries(command, series, (index) => startMillis + index * stepMillis);
}

async function evaluateInstant(
  command: Eval,
  { query, timeMillis }: TimedQuery,
  engine: PromqlEngine,
): Promise<string | null> {
  const { expect } = command;
  const result = await outcomeOf(() =>
    engine.instantQuery(query, timeMillis, queryOptions, signal),
  );
  if (result instanceof TsdbError) return checkFailure(expect, result);
  if (expect.fail !== null) return 'does not fail';
  const problem = checkAnnotations(expect, result) ?? checkInstant(command, result, timeMillis);
  if (problem !== null || expect.rangeVector !== null || expect.text !== null) return problem;
  if (/(start|end|range|step)\(\)/.test(query)) return null;
  const [from, to] = [timeMillis - minuteMillis, timeMillis + minuteMillis];
  const range = await outcomeOf(() =>
    engine.rangeQuery(query, from, to, minuteMillis, queryOptions, signal),
  );
  if (range instanceof TsdbError) return `as a range: fails: ${range.message}`;
  if (expect.ordered) return null;
  const all = range.series();
  const sorted = checkSorted(all);
  if (sorted !== null) return `as a range: ${sorted}`;
  const series = all.flatMap(({ labels, points }) => {
    const [point] = points.filter((each) => each.timeMillis === timeMillis);
    return point === undefined ? [] : [{ labels, points: [point] }];
  });
  if (expect.scalar !== null) {
    const value = series[0]?.points[0]?.value ?? null;
    return isSame(expect.scalar, value) ? null : `as a range: is ${shown(value)}`;
  }
  const difference = compareSeries(command, series, () => timeMillis);
  return difference === null ? null : `as a range: ${difference}`;
}

const { signal } = new AbortController();

/** @throws what is no error of an operator */
async function outcomeOf(run: () => Promise<QueryResult>): Promise<QueryResult | TsdbError> {
  try {
    const result = await run();
    const pieces: Uint8Array[] = [];
    for await (const piece of writeResultJson(result)) pieces.push(piece);
    JSON.parse(Buffer.concat(pieces).toString());
    return result;
  } catch (error) {
    if (error instanceof TsdbError || error instanceof PromqlError) return error as TsdbError;
    throw error;
  }
}

function checkFailure({ fail }: Expectation, error: TsdbError): string | null {
  if (fail === null) return `fails: ${error.message}`;
  return checkTexts([fail], [messageOf(error)], 'error');
}

/** Each that is expected is there, and each that is there is expected. */
function checkTexts(
  checks: readonly TextCheck[],
  texts: readonly string[],
  what: string,
): string | null {
  if (checks.length === 0) return null;
  const matches = ({ message, regexp }: TextCheck, text: string): boolean =>
    (message === null || message === text) && (regexp === null || regexp.test(text));
  if (texts.length === 0) return `no ${what}`;
  for (const check of checks) {
    if (!texts.some((text) => matches(check, text))) {
      return `no ${what} is ${JSON.stringify(check.message ?? String(check.regexp))}, but ${JSON.stringify(texts)}`;
    }
  }
  const unexpected = texts.find((text) => !checks.some((check) => matches(check, text)));
  return unexpected === undefined ? null : `another ${what}: ${JSON.stringify(unexpected)}`;
}

function checkAnnotations(expect: Expectation, { warnings, infos }: QueryResult): string | null {
  if (expect.noWarn && warnings.length > 0) return `warns: ${warnings.join('; ')}`;
  if (expect.noInfo && infos.length > 0) return `informs: ${infos.join('; ')}`;
  if (expect.anyWarn && warnings.length === 0) return 'no warning';
  if (expect.anyInfo && infos.length === 0) return 'no info';
  return checkTexts(expect.warn, warnings, 'warning') ?? checkTexts(expect.info, infos, 'info');
}

function checkInstant(command: Eval, result: QueryResult, timeMillis: number): string | null {
  const { expect } = command;
  const { value } = result;
  if (expect.text !== null) {
    if (value.kind === 'string' && value.value === expect.text) return null;
    return `is not the string ${expect.text}`;
  }
  if (expect.scalar !== null) {
    if (value.kind !== 'scalar') return `is a ${value.kind}, not a scalar`;
    return isSame(expect.scalar, value.value) ? null : `is ${value.value}`;
  }
  if (expect.rangeVector !== null) {
    const { startMillis, stepMillis } = expect.rangeVector;
    return compareSeries(command, result.series(), (index) => startMillis + index * stepMillis);
  }
  if (value.kind !== 'vector') return `is a ${value.kind}, not a vector`;
  return compareSeries(command, result.series(), () => timeMillis);
}

function checkSorted(series: readonly PlainSeries[]): string | null {
  for (const [i, { labels }] of series.entries()) {
    if (i > 0 && labels.compare(series[i - 1]!.labels) < 0) {
      return `series are not in order: ${labels.toString()}`;
    }
  }
  return null;
}

function compareSeries(
  { expect }: Eval,
  got: readonly PlainSeries[],
  timeOf: (index: number) => number,
): string | null {
  const gotKeys = got.map(({ labels }) => labels.key);
  if (new Set(gotKeys).size !== gotKeys.length) return 'has two series with the same labels';
  const print = () =>
    got
      .map(
        ({ labels, points }) =>
          `${labels.toString()} ${points.map((point) => shown(point.value)).join(' ')}`,
      )
      .join(' | ');
  if (got.length !== expect.series.length) {
    return `has ${got.length} series, not ${expect.series.length}: ${print()}`;
  }
  for (const [place, { tags, values }] of expect.series.entries()) {
    const key = Buffer.from(encodeTags(tags)).toString('latin1');
    const index = gotKeys.indexOf(key);
    if (index < 0) return `has no ${JSON.stringify(tags)}: ${print()}`;
    if (expect.ordered && index !== place) return `is in another order: ${print()}`;
    const wanted = values.flatMap((value, i) =>
      value === null ? [] : [{ timeMillis: timeOf(i), value }],
    );
    const { points } = got[index]!;
    const same =
      wanted.length === points.length &&
      wanted.every(
        (point, i) =>
          point.timeMillis === points[i]!.timeMillis && isSame(point.value, points[i]!.value),
      );
    if (!same) {
      const texts = wanted.map(({ value }) => shownWanted(value));
      return `differs: ${print()} instead of ${texts.join(' ')}`;
    }
  }
  return null;
}

const hintNames = ['unknown', 'reset', 'not_reset', 'gauge'];

function shown(value: number | FloatHistogram | null): string {
  if (value === null || typeof value === 'number') return String(value);
  return `${textOf(value)}/${value.schema}/${hintNames[value.hint]}`;
}

function shownWanted(value: ScriptValue): string {
  if (value === null || typeof value === 'bigint') return String(value && numberOf(value));
  return value.hasHint ? shown(value.histogram) : textOf(value.histogram);
}

function isSame(wanted: ScriptValue, got: number | FloatHistogram | null): boolean {
  if (wanted === null || got === null) return wanted === null && got === null;
  if (typeof wanted === 'bigint') return typeof got === 'number' && isClose(numberOf(wanted), got);
  if (typeof got === 'number') return false;
  const [a, b] = [wanted.histogram.copy().compact(), got.copy().compact()];
  const areClose = (x: Float64Array, y: Float64Array): boolean =>
    x.length === y.length && x.every((value, i) => isClose(value, y[i]!));
  return (
    a.schema === b.schema &&
    isClose(a.count, b.count) &&
    isClose(a.sum, b.sum) &&
    a.zeroThreshold === b.zeroThreshold &&
    isClose(a.zeroCount, b.zeroCount) &&
    a.customBounds.length === b.customBounds.length &&
    a.customBounds.every((bound, i) => bound === b.customBounds[i]) &&
    (['positive', 'negative'] as const).every(
      (side) =>
        a[side].indexes.length === b[side].indexes.length &&
        a[side].indexes.every((index, i) => index === b[side].indexes[i]) &&
        areClose(a[side].counts, b[side].counts),
    ) &&
    (!wanted.hasHint || a.hint === b.hint)
  );
}

const relativeTolerance = 1e-6;
const minNormal = 2 ** -1022;

function isClose(a: number, b: number): boolean {
  if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) && Number.isNaN(b);
  if (a === b) return true;
  const [sum, difference] = [Math.abs(a) + Math.abs(b), Math.abs(a - b)];
  if (a === 0 || b === 0 || sum < minNormal) return difference < relativeTolerance * minNormal;
  return difference / Math.min(sum, Number.MAX_VALUE) < relativeTolerance;
}

function numberOf(bits: bigint): number {
  return new Float64Array(BigUint64Array.of(bits).buffer)[0]!;
}
