/** A few series in memory, and what an evaluation asked of them. */
import { realEnv } from '#lib/env/real.ts';
import { Turns } from '#lib/turns/turns.ts';
import { tagsOfName } from '../series/series.ts';
import { Zone } from '../time/zone.ts';
import type { EvaluationContext, FetchedSeries, FetchRequest } from './context.ts';

/** Rows each minute; null is a row without a value. */
export type RowsOfPath = Readonly<Record<string, readonly (number | null)[]>>;

export const fromSeconds = 1_704_110_400;

export interface TestingContext extends EvaluationContext {
  /** Of each time that something was read. */
  readonly asked: (readonly FetchRequest[])[];
}

/**
 * A path ends with `*`, or is the name of a series. Rows are the same for every window, from its beginning on,
 * as many as it has minutes and the series has rows.
 * @param minutes of the evaluation's window
 */
export function testingContext(
  series: RowsOfPath,
  minutes: number,
  changes: Partial<EvaluationContext> = {},
): TestingContext {
  const asked: (readonly FetchRequest[])[] = [];
  const { signal } = new AbortController();
  return {
    fromSeconds,
    untilSeconds: fromSeconds + 60 * minutes,
    time: { nowSeconds: fromSeconds + 86_400, zone: new Zone('UTC') },
    limits: { seriesMax: 1_000, rowsMax: 100_000 },
    work: Turns.of(realEnv.clock).begin(signal),
    random: () => 0.75,
    fetch: async (requests) => {
      asked.push(requests);
      return requests.map((request) => answerOf(series, request));
    },
    findEvents: null,
    variables: new Map(),
    asked,
    ...changes,
  };
}

function answerOf(series: RowsOfPath, request: FetchRequest): FetchedSeries[] {
  const { pathExpression } = request;
  const isMatch = (name: string) =>
    pathExpression.endsWith('*')
      ? name.startsWith(pathExpression.slice(0, -1))
      : name === pathExpression;
  const minutes = (request.untilSeconds - request.fromSeconds) / 60;
  return Object.keys(series)
    .filter(isMatch)
    .map((name) => {
      const rows = series[name]!.slice(0, minutes);
      return {
        name,
        tags: tagsOfName(name),
        startSeconds: request.fromSeconds + 60,
        stepSeconds: 60,
        consolidation: 'average' as const,
        values: Float64Array.from(rows, (value) => value ?? 0),
        present: Uint8Array.from(rows, (value) => (value === null ? 0 : 1)),
      };
    });
}
