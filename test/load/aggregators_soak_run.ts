/**
 * Three pairs of aggregators under load, as processes: leaders are killed at random moments, their placement is changed, and
 * the key-value store hangs for a minute. Then every window of every rollup is held against what the slow twin makes of all
 * rows that were written: no gap, no double, no wrong value.
 *
 *     node test/load/aggregators_soak_run.ts [--kills 50] [--changes 10] [--seconds-between 30] [--store-away 60]
 *         [--seed 1] [--folder FOLDER] [--keep]
 *
 * SIGTERM ends the faults early, with everything compared. Exits with 1 when anything is missing, doubled or wrong, or the
 * run says nothing of it.
 */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { toolOptions } from '../command_line.ts';
import { SeededRandom } from '../seeded_random.ts';
import { toolOrSkip } from '../tools.ts';
import { SoakCluster } from './aggregators_soak/cluster.ts';
import { latenessMillis, settleMillis, windowMillis } from './aggregators_soak/data.ts';
import { betweenMillisMin, Faults, type FaultsOptions } from './aggregators_soak/faults.ts';
import { Ledger } from './aggregators_soak/ledger.ts';
import { reportOf, type SoakOutcome } from './aggregators_soak/report.ts';
import { type Comparison, compareWindows, readWindows } from './aggregators_soak/windows.ts';
import { SoakWriter } from './aggregators_soak/writer.ts';
import { freshFolder } from './folder.ts';

const usage = `aggregators_soak_run [--kills N] [--changes N] [--seconds-between N] [--store-away N] [--seed N] [--folder FOLDER] [--keep]

  --kills N             leaders that are killed; 50 when not given
  --changes N           changes of the placement: an instance is replaced, a pair removed, and added back, in turns; 10 when not given
  --seconds-between N   between two kills, at least ${betweenMillisMin / 1_000} (a window and its lateness), and up to ten more; 30 when not given
  --store-away N        seconds for which the key-value store hangs, once in the middle; 60 when not given
  --seed N              who is killed when, and what is written; 1 when not given
  --folder FOLDER       where logs and data go; else the system's folder for such
  --keep                keeps them also when all is well
  -h, --help            this text`;

const text = { type: 'string' } as const;
const values = toolOptions(usage, {
  kills: text,
  changes: text,
  'seconds-between': text,
  'store-away': text,
  seed: text,
  folder: text,
  keep: { type: 'boolean', default: false },
});

/** A whole number, or the end of this process with the usage. */
function wholeOf(name: string, given: string | undefined, otherwise: number, min = 0): number {
  const value = given === undefined ? otherwise : Number(given);
  if (Number.isSafeInteger(value) && value >= min && given !== '') return value;
  console.error(`--${name} is a whole number of at least ${min}: ${given}\n\n${usage}`);
  process.exit(2);
}

const faultsOptions: FaultsOptions = {
  kills: wholeOf('kills', values.kills, 50),
  changes: wholeOf('changes', values.changes, 10),
  betweenMillis:
    1_000 *
    wholeOf('seconds-between', values['seconds-between'], 30, Math.ceil(betweenMillisMin / 1_000)),
  storeAwayMillis: 1_000 * wholeOf('store-away', values['store-away'], 60),
};
const seed = wholeOf('seed', values.seed, 1);

/** Until each pair has a leader, and until all windows are final: much longer than either takes. */
const leadTimeoutMillis = 180_000;
const finalTimeoutMillis = 4 * settleMillis + 300_000;
/** What is due may be sent for so long after the end; the rest stays unacknowledged. */
const drainMillis = 120_000;
const lookMillis = 1_000;

const report = (line: string): void => console.log(line);

async function soak(cluster: SoakCluster, interrupted: AbortSignal): Promise<SoakOutcome> {
  const begin = performance.now();
  const failures: string[] = [];
  const ledger = new Ledger();
  const writer = new SoakWriter(cluster.url, ledger, new SeededRandom(seed), report);
  const [ended, givenUp] = [new AbortController(), new AbortController()];
  const cutoverMillis = await cluster.applyRules();
  // From before the first window on, so that the first changes are there.
  const writing = writer.run(ended.signal, givenUp.signal);
  writing.catch(() => {});
  report(`rules hold from ${new Date(cutoverMillis).toISOString()} on`);
  await delay(Math.max(0, cutoverMillis - Date.now()), undefined, { signal: interrupted }).catch(
    () => {},
  );
  const faults = new Faults(cluster, new SeededRandom(seed + 1), report);
  try {
    await allLead(cluster);
    await faults.run(faultsOptions, interrupted);
    // A window more that no fault is in, and what was on its way.
    await delay(windowMillis + latenessMillis);
  } catch (error) {
    failures.push(describe(error));
    report(`FAILURE ${failures.at(-1)}`);
  }
  ended.abort();
  const givingUp = setTimeout(() => givenUp.abort(), drainMillis);
  await writing;
  clearTimeout(givingUp);
  const endMillis = Math.floor(writer.endMillis / windowMillis) * windowMillis;
  const range = { beginMillis: cutoverMillis, endMillis };
  report(
    `rows are written; waiting until windows up to ${new Date(endMillis).toISOString()} are final`,
  );
  const finalSeconds = await allFinal(cluster, endMillis);
  if (finalSeconds === null) {
    const finalEnd = await cluster.finalEndMillis().catch(() => 0);
    failures.push(`windows after ${new Date(finalEnd).toISOString()} are not final`);
  }
  let comparison: Comparison | null = null;
  try {
    const stored = await readWindows(cluster.url, range);
    comparison = compareWindows(ledger.series(), cutoverMillis, range, stored);
  } catch (error) {
    failures.push(describe(error));
  }
  return {
    seconds: (performance.now() - begin) / 1_000,
    seed,
    writes: writer.counts,
    unacknowledged: ledger.unacknowledged,
    acknowledgedTooLate: ledger.acknowledgedTooLate,
    faults: faults.records,
    asked: faultsOptions,
    finalSeconds,
    corrections: await cluster.corrections().catch(() => 0),
    comparison,
    failures,
    surprises: cluster.surprises,
    usage: cluster.usage.all(),
  };
}

/** Waits until each pair has a leader. */
async function allLead(cluster: SoakCluster): Promise<void> {
  const end = performance.now() + leadTimeoutMillis;
  for (;;) {
    const [leaders, pairs] = [await cluster.leaders(), await cluster.shardSets()];
    if (leaders.length === pairs) return;
    if (performance.now() > end) {
      throw new Error(`${leaders.length} of ${pairs} pairs have a leader after three minutes`);
    }
    await delay(lookMillis);
  }
}

/** @returns how long after its end the last window was final; null when that takes too long */
async function allFinal(cluster: SoakCluster, endMillis: number): Promise<number | null> {
  while (Date.now() < endMillis + finalTimeoutMillis) {
    const finalEndMillis = await cluster.finalEndMillis().catch(() => 0);
    if (finalEndMillis >= endMillis) return (Date.now() - endMillis) / 1_000;
    await delay(lookMillis);
  }
  return null;
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${describe(error.cause)}`;
}

async function main(): Promise<number> {
  const etcdBinary = toolOrSkip('etcd', 'there are no aggregators to soak');
  if (etcdBinary === null) return 2;
  const folder = freshFolder('aggregators-soak', values.folder);
  const interrupted = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.once(name, () => interrupted.abort());
  }
  const cluster = await SoakCluster.create(folder, etcdBinary, report);
  let isGood = false;
  try {
    report(`seed ${seed}, folder ${folder}`);
    await cluster.start();
    const told = reportOf(await soak(cluster, interrupted.signal));
    for (const line of told.lines) report(line);
    report(JSON.stringify(told.json));
    writeFileSync(join(folder, 'report.json'), `${JSON.stringify(told.json, null, 2)}\n`);
    ({ isGood } = told);
  } finally {
    await cluster.stop();
    // Logs tell why.
    if (isGood && !values.keep) rmSync(folder, { recursive: true, force: true });
    else report(`kept: ${folder}`);
  }
  return isGood ? 0 : 1;
}

process.exitCode = await main();
