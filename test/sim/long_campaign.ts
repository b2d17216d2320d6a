/**
 * A campaign of many seeds over several processes, which keeps a summary: the same command goes on
 * where it ended, and a process that dies costs the seed that killed it.
 */
import { spawn, spawnSync } from 'node:child_process';
import { globSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { codeOf } from './code.ts';
import {
  added,
  emptySummary,
  type Failure,
  missingSeeds,
  readSummary,
  type SeedRange,
  type Summary,
  writeSummary,
} from './summary.ts';

const root = join(import.meta.dirname, '..', '..');
/** A process takes so many seeds, then another one is started. */
const seedsOfProcess = 25;
/** A tenth less CPU than with Node's young generation: most of what a simulated message is made of is garbage at once. */
const nodeFlags = ['--min-semi-space-size=64', '--max-semi-space-size=128', '--single-threaded-gc'];
/** Seeds that end their process; then it is not the seeds. */
const deathsMax = 20;

export interface LongCampaign {
  readonly campaign: string;
  /** Its module, from the root. */
  readonly file: string;
  readonly size: number;
  readonly seeds: SeedRange;
  readonly processes: number;
  /** No seed is begun after it. */
  readonly endMillis: number;
  /** Where the summary lies; it is added to. */
  readonly path: string;
}

/**
 * Runs the seeds that the summary lacks.
 * @throws {Error} when the file is of another campaign, size or code
 */
export async function runLong(options: LongCampaign): Promise<Summary> {
  const { campaign, size, seeds, processes, path } = options;
  const begun = emptySummary(campaign, size, commitNow(), codeOf(root, options.file));
  let summary = readSummary(path) ?? begun;
  for (const field of ['campaign', 'size', 'codes'] as const) {
    if (String(summary[field]) === String(begun[field])) continue;
    throw new Error(`${path} is of another ${field}: ${summary[field]}, not ${begun[field]}`);
  }
  const take = (part: Summary): void => {
    summary = added(summary, part);
    writeSummary(path, summary);
    const hours = ((summary.counts['simulated seconds'] ?? 0) / 3600).toFixed(1);
    const failed = summary.failures.length;
    console.log(`  ${campaign}: ${summary.runs} runs, ${hours} simulated hours, ${failed} failed`);
  };
  // Of processes that were ended before their seeds were over.
  for (const left of globSync(`${path}.part-*`)) {
    const part = readSummary(left)!;
    const isNew = (range: SeedRange): boolean =>
      missingSeeds(summary, range, 1).next().done !== true;
    if (part.seeds.some(isNew)) take(part);
    rmSync(left);
  }
  let deaths = 0;
  const waiting = missingSeeds(summary, seeds, seedsOfProcess);
  /** What is left of ranges whose process died. */
  const broken: SeedRange[] = [];
  const work = async (): Promise<void> => {
    for (;;) {
      if (Date.now() >= options.endMillis) return;
      const range = broken.shift() ?? waiting.next().value;
      if (range === undefined) return;
      const partPath = `${path}.part-${range[0]}`;
      const death = await runPart(options, range, partPath);
      const part = readSummary(partPath) ?? begun;
      const [next] = missingSeeds(part, range, seedsOfProcess);
      if (death === null || next === undefined) {
        if (part.runs > 0) take(part);
      } else {
        const [seed] = next;
        deaths += 1;
        if (deaths > deathsMax) throw new Error(`seed ${seed}: ${death}, as those before it`);
        const failure = { seed, error: death, again: againOf(campaign, seed, size) };
        tellFailure(campaign, failure);
        take(added(part, { ...begun, seeds: [[seed, seed]], runs: 1, failures: [failure] }));
        if (seed < range[1]) broken.push([seed + 1, range[1]]);
      }
      rmSync(partPath, { force: true });
    }
  };
  await Promise.all(Array.from({ length: processes }, work));
  return summary;
}

export function againOf(campaign: string, seed: number, size: number): string {
  return `npm run sim -- --only ${campaign} --seed ${seed} --runs 1 --size ${size}`;
}

/** In one line. */
export function tellFailure(campaign: string, { seed, error, again }: Failure): void {
  console.log(`not ok - ${campaign}: seed ${seed}: ${error}; again: ${again}`);
}

export function commitNow(): string {
  const git = (...args: string[]): string =>
    spawnSync('git', args, { cwd: root, encoding: 'utf8' }).stdout?.trim() ?? '';
  const commit = git('rev-parse', '--short=12', 'HEAD') || 'unknown';
  return git('status', '--porcelain', '--untracked-files=no') === '' ? commit : `${commit}-changed`;
}

/** @returns how its process died; null when it ended by itself */
function runPart(
  { campaign, size, endMillis }: LongCampaign,
  [first, last]: SeedRange,
  partPath: string,
): Promise<string | null> {
  const options: Record<string, string | number> = {
    only: campaign,
    seed: first,
    runs: last - first + 1,
    size,
    minutes: Math.max(1, Math.ceil((endMillis - Date.now()) / 60_000)),
    part: partPath,
  };
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, `${value}`]);
  const program = join(import.meta.dirname, 'sim.ts');
  const child = spawn(process.execPath, [...nodeFlags, program, ...args], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(`its process does not start: ${error.message}`));
    child.once('exit', (code, signal) => {
      resolve(code === 0 ? null : `its process ended with ${signal ?? code}`);
    });
  });
}
