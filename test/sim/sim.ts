/**
 * `npm run sim`: seeded campaigns of production code on simulated parts, and of readers under hostile input.
 * Each is a `*_fuzz.ts` beside the code that it shakes; a run is one seed, and the same seed gives the same run.
 *   -- --list                        names of the campaigns
 *   -- --only node/storage/crash     those whose name contains it (repeatable); all when not given
 *   -- --runs 2000 --seed 1          seeds 1 to 2000
 *   -- --size 20                     steps or inputs of one run
 *   -- --minutes 10                  stop then, whatever is left
 */
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

const root = join(import.meta.dirname, '..', '..');
const rooms = '{lib,engine,cluster,kv,node,coordinator,operator,tsdbctl}';
const progressMillis = 10_000;

interface Campaign {
  readonly name: string;
  readonly file: string;
}

const campaigns: readonly Campaign[] = globSync(`${rooms}/**/*_fuzz.ts`, { cwd: root })
  .sort()
  .map((file) => ({ name: file.replace(/_fuzz\.ts$/, ''), file }));

function wholeNumber(name: string, text: string, least: number): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= least) return value;
  console.error(`--${name} is not a whole number of at least ${least}: ${text}`);
  process.exit(2);
}

/** @returns false when a seed failed, which is printed with the command that runs it again */
async function run(
  { name, file }: Campaign,
  options: { seed: number; runs: number; size: number; endMillis: number },
): Promise<boolean> {
  const { fuzz } = (await import(join(root, file))) as {
    fuzz: (seed: number, size: number) => void | Promise<void>;
  };
  const { seed: first, runs, size, endMillis } = options;
  const started = Date.now();
  let told = started;
  let done = 0;
  for (let seed = first; seed < first + runs && Date.now() < endMillis; seed += 1) {
    try {
      await fuzz(seed, size);
    } catch (error) {
      console.log(`not ok - ${name}: seed ${seed}, after ${done} good runs`);
      console.log(error instanceof Error ? error.stack : error);
      console.log(`again: npm run sim -- --only ${name} --seed ${seed} --runs 1 --size ${size}`);
      return false;
    }
    done += 1;
    if (Date.now() - told < progressMillis) continue;
    told = Date.now();
    console.log(`  ${name}: ${done} of ${runs} runs`);
  }
  const seconds = ((Date.now() - started) / 1000).toFixed(1);
  console.log(`ok - ${name}: seeds ${first} to ${first + done - 1}, size ${size}, ${seconds} s`);
  return true;
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      list: { type: 'boolean', default: false },
      only: { type: 'string', multiple: true, default: [] },
      seed: { type: 'string', default: '1' },
      runs: { type: 'string', default: '100' },
      size: { type: 'string', default: '20' },
      minutes: { type: 'string', default: '1000' },
    },
  });
  if (values.list) {
    for (const { name } of campaigns) console.log(name);
    return 0;
  }
  const chosen = campaigns.filter(
    ({ name }) => values.only.length === 0 || values.only.some((part) => name.includes(part)),
  );
  if (chosen.length === 0) {
    console.error(`no such campaign: ${values.only.join(', ')}; --list shows them`);
    return 2;
  }
  const options = {
    seed: wholeNumber('seed', values.seed, 0),
    runs: wholeNumber('runs', values.runs, 1),
    size: wholeNumber('size', values.size, 1),
    endMillis: Date.now() + wholeNumber('minutes', values.minutes, 1) * 60_000,
  };
  let failed = 0;
  for (const campaign of chosen) if (!(await run(campaign, options))) failed += 1;
  console.log(`# campaigns ${chosen.length}\n# fail ${failed}`);
  return failed === 0 ? 0 : 1;
}

process.exitCode = await main();
