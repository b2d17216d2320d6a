/** What a soak of a cluster tells in the end. */
import type { ReadCounts } from './cluster_soak_checker.ts';
import type { Pause, WriteCounts } from './cluster_soak_writer.ts';
import type { Usage } from './process_usage.ts';

export interface FaultRecord {
  readonly name: string;
  /** What was done, or why it was left out. */
  readonly what: string;
  readonly isSkipped: boolean;
  readonly fromUnixMillis: number;
  /** When the cluster was whole again. */
  readonly toUnixMillis: number;
  /** From when the fault was over. */
  readonly untilWholeMillis: number;
  /** From its begin until the cluster was whole. */
  readonly firstAttempts: number;
  readonly firstAttemptsAcknowledged: number;
}

export interface ClusterSoakOutcome {
  readonly seconds: number;
  readonly writes: WriteCounts;
  readonly samplesSent: number;
  readonly pauses: readonly Pause[];
  readonly reads: ReadCounts;
  readonly failures: readonly string[];
  /** Processes that ended by themselves. */
  readonly surprises: readonly string[];
  readonly faults: readonly FaultRecord[];
  readonly usage: ReadonlyMap<string, Usage>;
  readonly diskBytes: ReadonlyMap<string, number>;
}

export function reportOf(outcome: ClusterSoakOutcome): {
  readonly lines: readonly string[];
  readonly isGood: boolean;
} {
  const { writes, reads, pauses, faults, failures, surprises, usage, diskBytes } = outcome;
  // Prometheus drops what is refused for good, and all that is sent is good.
  const isGood =
    reads.missing === 0 &&
    reads.wrong === 0 &&
    writes.requestsRefused === 0 &&
    failures.length === 0;
  const longest = longestOf(pauses);
  const lines = [
    `${outcome.seconds.toFixed(0)} s, ${faults.filter(({ isSkipped }) => !isSkipped).length} faults`,
    `written: ${outcome.samplesSent} samples sent, ${writes.samplesAcknowledged} acknowledged, ${writes.requestsRefused} of ${writes.requests} requests refused for good, ${writes.attemptsFailed} attempts failed and were made again`,
    `availability of writes: ${shareOf(writes)} of requests acknowledged at their first attempt; at most ${secondsOf(writes.behindMaxMillis)} s behind`,
    longest === null
      ? 'longest time without an acknowledged request: below a second'
      : `longest time without an acknowledged request: ${secondsOf(longest.toUnixMillis - longest.fromUnixMillis)} s, during ${duringOf(longest, faults)}`,
    `read: ${reads.reads} reads, ${reads.readsRefused} refused, ${reads.samplesHeld} acknowledged samples held against answers`,
    ...faults.map((fault) => faultLine(fault, pauses)),
    ...[...usage].map(
      ([name, { cpuSeconds, rssMaxBytes }]) =>
        `${name}: ${cpuSeconds.toFixed(1)} CPU seconds, ${mebibytes(rssMaxBytes)} MiB at most${
          diskBytes.has(name) ? `, ${mebibytes(diskBytes.get(name)!)} MiB on disk` : ''
        }`,
    ),
    `ended by themselves: ${surprises.length}`,
    `${reads.missing} missing, ${reads.wrong} wrong, ${failures.length} failures`,
    ...failures,
    isGood ? 'ok' : 'FAILED',
  ];
  return { lines, isGood };
}

function faultLine(fault: FaultRecord, pauses: readonly Pause[]): string {
  const { name, what, fromUnixMillis, toUnixMillis } = fault;
  if (fault.isSkipped) return `${name}: skipped, ${what}`;
  const within = longestOf(
    pauses.filter(
      (each) => each.toUnixMillis > fromUnixMillis && each.fromUnixMillis < toUnixMillis,
    ),
  );
  const pause = within === null ? 0 : within.toUnixMillis - within.fromUnixMillis;
  return `${new Date(fromUnixMillis).toISOString()} ${name} (${what}): whole ${secondsOf(fault.untilWholeMillis)} s after it, ${shareOf(fault)} at the first attempt, longest pause ${secondsOf(pause)} s`;
}

function longestOf(pauses: readonly Pause[]): Pause | null {
  let longest: Pause | null = null;
  for (const each of pauses) {
    const length = each.toUnixMillis - each.fromUnixMillis;
    if (longest === null || length > longest.toUnixMillis - longest.fromUnixMillis) longest = each;
  }
  return longest;
}

function duringOf(pause: Pause, faults: readonly FaultRecord[]): string {
  const names = faults
    .filter(
      (fault) =>
        !fault.isSkipped &&
        fault.toUnixMillis > pause.fromUnixMillis &&
        fault.fromUnixMillis < pause.toUnixMillis,
    )
    .map(({ name }) => name);
  return names.length === 0 ? 'no fault' : names.join(', ');
}

function shareOf(counts: { firstAttempts: number; firstAttemptsAcknowledged: number }): string {
  if (counts.firstAttempts === 0) return 'none';
  return `${((100 * counts.firstAttemptsAcknowledged) / counts.firstAttempts).toFixed(3)} %`;
}

const secondsOf = (millis: number): string => (millis / 1000).toFixed(1);

const mebibytes = (bytes: number): string => (bytes / 2 ** 20).toFixed(0);
