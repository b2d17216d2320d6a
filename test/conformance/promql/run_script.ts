/** Runs a promqltest script on the engine and lists what differs. */
import type { PlainSeries, QueryResult } from '#coordinator/promql/evaluate/result.ts';
import { type PromqlEngine, writeResultJson } from '#coordinator/promql/engine.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { encodeTags } from '#lib/tags.ts';
import type { MemoryStorage } from './memory_storage.ts';
import { type Command, type Expectation, type TextCheck, parseScript } from './script.ts';

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
      for (const { tags, values } of lines.values()) {
        values.forEach((bits, index) => {
          if (bits !== null) storage.add(tags, index * command.stepMillis, bits);
        });
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

async function evaluate(command: Eval, engine: PromqlEngine): Promise<string | null> {
  const signal = new AbortController().signal;
  const { expr, startMillis, endMillis, stepMillis, expect } = command;
  let result: QueryResult;
  try {
    result =
      stepMillis === 0
        ? await engine.instantQuery(expr, startMillis, queryOptions, signal)
        : await engine.rangeQuery(expr, startMillis, endMillis, stepMillis, queryOptions, signal);
    const pieces: Uint8Array[] = [];
    for await (const piece of writeResultJson(result)) pieces.push(piece);
    JSON.parse(Buffer.concat(pieces).toString());
  } catch (error) {
    if (!(error instanceof TsdbError)) throw error;
    if (expect.fail === null) return `fails: ${error.message}`;
    return checkText([expect.fail], [messageOf(error)], 'error');
  }
  if (expect.fail !== null) return 'does not fail';
  return (
    checkAnnotations(expect, result) ??
    (stepMillis === 0 ? checkInstant(command, result) : checkRange(command, result))
  );
}

function checkText(
  checks: readonly TextCheck[],
  texts: readonly string[],
  what: string,
): string | null {
  for (const { message, regexp } of checks) {
    if (message !== null && !texts.includes(message)) {
      return `${what} is not ${JSON.stringify(message)} but ${JSON.stringify(texts)}`;
    }
    if (regexp !== null && !texts.some((text) => regexp.test(text))) {
      return `no ${what} matches ${regexp}: ${JSON.stringify(texts)}`;
    }
    if (texts.length === 0) return `no ${what}`;
  }
  return null;
}

function checkAnnotations(expect: Expectation, { warnings, infos }: QueryResult): string | null {
  if (expect.noWarn && warnings.length > 0) return `warns: ${warnings.join('; ')}`;
  if (expect.noInfo && infos.length > 0) return `informs: ${infos.join('; ')}`;
  return checkText(expect.warn, warnings, 'warning') ?? checkText(expect.info, infos, 'info');
}

function checkInstant(command: Eval, result: QueryResult): string | null {
  const { expect } = command;
  const { value } = result;
  if (expect.text !== null) {
    if (value.kind === 'string' && value.value === expect.text) return null;
    return `is not the string ${expect.text}`;
  }
  if (expect.scalar !== null) {
    if (value.kind !== 'scalar') return `is a ${value.kind}, not a scalar`;
    return isClose(numberOf(expect.scalar), value.value)
      ? null
      : `is ${value.value}, not ${numberOf(expect.scalar)}`;
  }
  if (expect.rangeVector !== null) {
    const { startMillis, stepMillis } = expect.rangeVector;
    return compareSeries(command, result.series(), (index) => startMillis + index * stepMillis);
  }
  if (value.kind !== 'vector') return `is a ${value.kind}, not a vector`;
  return compareSeries(command, result.series(), () => command.startMillis);
}

function checkRange(command: Eval, result: QueryResult): string | null {
  if (result.value.kind !== 'matrix') return `is a ${result.value.kind}, not a matrix`;
  return compareSeries(
    command,
    result.series(),
    (index) => command.startMillis + index * command.stepMillis,
  );
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
          `${labels.toString()} ${points.map((point) => point.value).join(' ')}`,
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
    const wanted = values.flatMap((bits, i) =>
      bits === null ? [] : [{ timeMillis: timeOf(i), value: numberOf(bits) }],
    );
    const { points } = got[index]!;
    const same =
      wanted.length === points.length &&
      wanted.every(
        (point, i) =>
          point.timeMillis === points[i]!.timeMillis && isClose(point.value, points[i]!.value),
      );
    if (!same) return `differs: ${print()} instead of ${JSON.stringify(wanted)}`;
  }
  return null;
}

const relativeTolerance = 1e-6;

function isClose(a: number, b: number): boolean {
  if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) && Number.isNaN(b);
  if (a === b) return true;
  if (!Number.isFinite(a) || !Number.isFinite(b)) return false;
  return Math.abs(a - b) <= relativeTolerance * Math.max(Math.abs(a), Math.abs(b));
}

function numberOf(bits: bigint): number {
  return new Float64Array(BigUint64Array.of(bits).buffer)[0]!;
}
