/** What a soak of aggregators tells in the end. */
import type { Usage } from '../process_usage.ts';
import type { FaultRecord } from './faults.ts';
import type { Comparison, Difference } from './windows.ts';
import type { WriteCounts } from './writer.ts';

export interface SoakOutcome {
  readonly seconds: number;
  readonly seed: number;
  readonly writes: WriteCounts;
  readonly unacknowledged: number;
  readonly acknowledgedTooLate: number;
  readonly faults: readonly FaultRecord[];
  readonly asked: { readonly kills: number; readonly changes: number };
  /** From the end of the last window until it was made for good; null when it was not. */
  readonly finalSeconds: number | null;
  /** Rows that were made of fewer rows at first, of processes that ran in the end. */
  readonly corrections: number;
  /** Null when windows could not be read. */
  readonly comparison: Comparison | null;
  readonly failures: readonly string[];
  /** Processes that ended by themselves. */
  readonly surprises: readonly string[];
  readonly usage: ReadonlyMap<string, Usage>;
}

export interface SoakReport {
  readonly lines: readonly string[];
  readonly json: object;
  readonly isGood: boolean;
}

export function reportOf(outcome: SoakOutcome): SoakReport {
  const { writes, faults, asked, comparison, failures, surprises, usage, finalSeconds } = outcome;
  const counts = (name: FaultRecord['name']): number =>
    faults.filter((fault) => fault.name === name).length;
  const [kills, changes, storeAway] = [counts('kill'), counts('change'), counts('store hangs')];
  const invalid = [
    ...(outcome.acknowledgedTooLate > 0
      ? [
          `${outcome.acknowledgedTooLate} rows were acknowledged when their windows may have been made`,
        ]
      : []),
    ...(outcome.unacknowledged > 0
      ? [`${outcome.unacknowledged} rows were not acknowledged at all`]
      : []),
    ...(kills < asked.kills ? [`${kills} kills instead of ${asked.kills}`] : []),
    ...(changes < asked.changes ? [`${changes} changes instead of ${asked.changes}`] : []),
    ...(comparison === null || comparison.compared === 0 ? ['no window was compared'] : []),
  ];
  const isEqual =
    comparison !== null && comparison.missing + comparison.doubled + comparison.wrong === 0;
  const isGood = isEqual && invalid.length === 0 && failures.length === 0 && surprises.length === 0;
  const aggregators = [...usage].filter(([name]) => name.startsWith('agg-'));
  const cpuSeconds = aggregators.reduce((sum, [, of]) => sum + of.cpuSeconds, 0);
  const rssMaxBytes = Math.max(0, ...aggregators.map(([, of]) => of.rssMaxBytes));
  const lines = [
    `${outcome.seconds.toFixed(0)} s, seed ${outcome.seed}: ${kills} leaders killed, placement changed ${changes} times, key-value store away ${storeAway} times`,
    `written: ${writes.rows} rows, ${writes.late} late, ${writes.twice} twice, in ${writes.requests} requests; ${writes.attemptsFailed} attempts failed and were made again, the slowest request took ${(writes.slowestMillis / 1_000).toFixed(1)} s; ${writes.refused} rows refused for good`,
    finalSeconds === null
      ? 'windows: not all are final'
      : `windows: the last one was final ${finalSeconds.toFixed(0)} s after its end; ${outcome.corrections} values at least were made once more, of rows that had come late`,
    comparison === null
      ? 'windows could not be read'
      : `compared: ${comparison.compared} windows of ${comparison.series} series, ${comparison.windows} of each at most: ${comparison.missing} missing, ${comparison.doubled} doubled, ${comparison.wrong} wrong`,
    ...(comparison === null
      ? []
      : Object.entries(comparison.differences).flatMap(([kind, some]) =>
          some.map((one) => differenceLine(kind, one)),
        )),
    ...[...usage].map(
      ([name, of]) =>
        `${name}: ${of.cpuSeconds.toFixed(1)} CPU seconds, ${mebibytes(of.rssMaxBytes)} MiB at most`,
    ),
    `aggregators: ${cpuSeconds.toFixed(1)} CPU seconds together, each ${mebibytes(rssMaxBytes)} MiB at most`,
    `ended by themselves: ${surprises.length}`,
    ...failures.map((text) => `FAILURE ${text}`),
    ...invalid.map((text) => `NOT VALID: ${text}`),
    isGood ? 'ok' : 'FAILED',
  ];
  const json = {
    isGood,
    seconds: Math.round(outcome.seconds),
    seed: outcome.seed,
    rows: writes.rows,
    late: writes.late,
    twice: writes.twice,
    refused: writes.refused,
    attemptsFailed: writes.attemptsFailed,
    unacknowledged: outcome.unacknowledged,
    acknowledgedTooLate: outcome.acknowledgedTooLate,
    kills,
    changes,
    storeAway,
    finalSeconds,
    corrections: outcome.corrections,
    compared: comparison?.compared ?? 0,
    missing: comparison?.missing ?? null,
    doubled: comparison?.doubled ?? null,
    wrong: comparison?.wrong ?? null,
    differences: comparison?.differences ?? null,
    aggregatorsCpuSeconds: Math.round(10 * cpuSeconds) / 10,
    aggregatorsRssMaxBytes: rssMaxBytes,
    usage: Object.fromEntries(usage),
    faults,
    failures,
    surprises: surprises.length,
    invalid,
  };
  return { lines, json, isGood };
}

function differenceLine(kind: string, { series, end, expected, found }: Difference): string {
  const values = found.map(({ time, value }) => `${value} at ${time}`).join(', ');
  return `  ${kind}: {${series}} at ${end}: expected ${expected ?? 'nothing'}, found ${values === '' ? 'nothing' : values}`;
}

const mebibytes = (bytes: number): string => (bytes / 2 ** 20).toFixed(0);
