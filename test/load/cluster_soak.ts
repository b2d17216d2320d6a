/**
 * The soak of a cluster: remote write and reads at majority against processes, faults one after the
 * other meanwhile, and in the end everything is read, also with each isolation group away.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { SeededRandom } from '../seeded_random.ts';
import { ClusterChecker } from './cluster_soak_checker.ts';
import { type Grid, sliceCount } from './cluster_soak_data.ts';
import { bytesOf } from './folder.ts';
import { type FaultTimes, faults } from './cluster_soak_faults.ts';
import { Ledger } from './cluster_soak_ledger.ts';
import type { SoakCluster } from './cluster_soak_processes.ts';
import type { ClusterSoakOutcome, FaultRecord } from './cluster_soak_report.ts';
import { ClusterWriter } from './cluster_soak_writer.ts';

export interface ClusterSoakOptions {
  readonly seconds: number;
  readonly samplesPerSecond: number;
  readonly seriesCount: number;
  readonly readsPerSecond: number;
  readonly seed: number;
  /** Names of faults, in the order of the seed again and again. */
  readonly faults: readonly string[];
  /** Between a cluster that is whole and the next fault. */
  readonly pauseMillis: number;
  readonly times: FaultTimes;
}

/** What is due may be sent for so long after the end; the rest stays unacknowledged. */
const drainMillis = 300_000;
/** A fault may take longer than is left, and what was held back is sent late. */
const spareSteps = 10_000;

export async function soakCluster(
  cluster: SoakCluster,
  options: ClusterSoakOptions,
  report: (line: string) => void,
  interrupted: AbortSignal,
): Promise<ClusterSoakOutcome> {
  const random = new SeededRandom(options.seed);
  const stepMillis = (options.seriesCount / options.samplesPerSecond) * 1000;
  if (!Number.isInteger(stepMillis)) {
    throw new Error(
      `${options.seriesCount} series at ${options.samplesPerSecond}/s: a step of ${stepMillis} ms is not whole`,
    );
  }
  const grid: Grid = {
    seriesCount: options.seriesCount,
    startUnixMillis: Math.ceil(Date.now() / 1000) * 1000,
    stepMillis,
  };
  const longest = options.seconds * 1000 + 2 * options.times.wholeTimeoutMillis;
  const ledger = new Ledger(sliceCount(grid), Math.ceil(longest / stepMillis) + spareSteps);
  let current = 'no fault';
  const circumstances = (): string => `${current}; ${cluster.states()}`;
  const writer = new ClusterWriter(grid, ledger, cluster.urls, report);
  const checker = new ClusterChecker({
    grid,
    ledger,
    urls: cluster.urls,
    circumstances,
    random: new SeededRandom(options.seed + 1),
    report,
    againMillis: 3000,
  });
  const ended = new AbortController();
  const givenUp = new AbortController();
  const load = Promise.all([
    writer.run(ended.signal, givenUp.signal),
    checker.run(options.readsPerSecond, ended.signal),
  ]);
  // Whoever waits for it hears of its error, once the processes can be ended.
  load.catch(() => {});
  const records: FaultRecord[] = [];
  const failures: string[] = [];
  const begin = performance.now();
  const isOver = (): boolean =>
    interrupted.aborted || performance.now() - begin > options.seconds * 1000;
  const pause = async (): Promise<void> => {
    const left = begin + options.seconds * 1000 - performance.now();
    await delay(Math.max(0, Math.min(options.pauseMillis, left)), undefined, {
      signal: interrupted,
    }).catch(() => {});
  };
  const context = { cluster, checker, random, times: options.times };

  const befall = async (name: string): Promise<void> => {
    const fault = faults[name]!;
    const fromUnixMillis = Date.now();
    const why = fault.whyNot?.(context) ?? null;
    const before = { ...writer.counts };
    const record = (what: string, untilWholeMillis: number): FaultRecord => ({
      name,
      what,
      isSkipped: why !== null,
      fromUnixMillis,
      toUnixMillis: Date.now(),
      untilWholeMillis,
      firstAttempts: writer.counts.firstAttempts - before.firstAttempts,
      firstAttemptsAcknowledged:
        writer.counts.firstAttemptsAcknowledged - before.firstAttemptsAcknowledged,
    });
    if (why !== null) {
      report(`${name}: skipped, ${why}`);
      records.push(record(why, 0));
      return;
    }
    current = name;
    report(`${new Date().toISOString()} ${name}`);
    const what = await fault.run(context);
    current = `after ${name} (${what})`;
    report(`  ${what}; ${progress()}`);
    const untilWhole = await cluster.whole(options.times.wholeTimeoutMillis);
    current = 'no fault';
    records.push(record(what, untilWhole));
    report(`  whole ${(untilWhole / 1000).toFixed(1)} s after it; ${progress()}`);
  };
  const progress = (): string => {
    const { missing, wrong, samplesHeld, readsRefused } = checker.counts;
    return `${writer.counts.samplesAcknowledged} acknowledged, ${samplesHeld} held, ${readsRefused} reads refused, ${missing} missing, ${wrong} wrong`;
  };

  try {
    await pause();
    const deck: string[] = [];
    while (!isOver()) {
      if (deck.length === 0) deck.push(...shuffled(options.faults, random));
      const next = deck.pop();
      if (next !== undefined) await befall(next);
      await pause();
    }
  } catch (error) {
    // What was acknowledged is looked for all the same.
    failures.push(`${current}: ${describe(error)}`);
    report(`FAILURE ${failures.at(-1)}`);
  }
  ended.abort();
  const givingUp = setTimeout(() => givenUp.abort(), drainMillis);
  await load;
  clearTimeout(givingUp);
  try {
    await readInTheEnd(cluster, checker, options.times.wholeTimeoutMillis, (what) => {
      current = what;
      report(`${new Date().toISOString()} ${what}; ${progress()}`);
    });
  } catch (error) {
    failures.push(`${current}: ${describe(error)}`);
  }
  return {
    seconds: (performance.now() - begin) / 1000,
    writes: writer.counts,
    samplesSent: ledger.samplesSent(grid.seriesCount),
    pauses: writer.pauses,
    reads: checker.counts,
    failures: [...failures, ...checker.failures],
    surprises: cluster.surprises,
    faults: records,
    usage: cluster.usage.all(),
    diskBytes: new Map(cluster.members.map(({ id, data }) => [id, bytesOf(data)])),
  };
}

/** A majority has everything, whichever isolation group is away. */
async function readInTheEnd(
  cluster: SoakCluster,
  checker: ClusterChecker,
  wholeTimeoutMillis: number,
  begin: (what: string) => void,
): Promise<void> {
  begin('everything is read');
  await cluster.whole(wholeTimeoutMillis);
  await checker.readAll();
  for (const group of new Set(cluster.members.map((member) => member.group))) {
    begin(`everything is read without ${group}`);
    const members = cluster.members.filter((member) => member.group === group);
    await Promise.all(members.map((member) => cluster.end(member)));
    await checker.readAll();
    for (const member of members) cluster.begin(member);
    await cluster.whole(wholeTimeoutMillis);
  }
}

function shuffled(names: readonly string[], random: SeededRandom): string[] {
  const left = [...names];
  const deck: string[] = [];
  while (left.length > 0) {
    deck.push(left.splice(random.below(left.length), 1)[0]!);
  }
  return deck;
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${describe(error.cause)}`;
}
