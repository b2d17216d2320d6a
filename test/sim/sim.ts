/**
 * `npm run sim`: seeded campaigns of production code on simulated parts, and of readers under
 * hostile input. Each is a `*_fuzz.ts` beside the code that it shakes; a run is one seed, and the
 * same seed gives the same run.
 */
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { messageOf } from '#lib/errors.ts';
import { toolOptions } from '../command_line.ts';
import { codeOf } from './code.ts';
import { inputsSoFar, takeCounts } from './counts.ts';
import { againOf, commitNow, runLong, tellFailure } from './long_campaign.ts';
import { added, emptySummary, readSummary, type Summary, writeSummary } from './summary.ts';

const usage = `npm run sim -- [options]: seeded campaigns; the same seed gives the same run
  --list             names of the campaigns
  --only TEXT        those whose name contains it (repeatable); all when not given
  --seed N           first seed; 1 when not given
  --runs N           so many seeds; 100 when not given
  --size N           steps or inputs of one run; 20 when not given
  --inputs N         seeds until the campaign's readers had so many inputs
  --trace            tell what happens, where a campaign does (test/sim/cluster)
  --minutes N        stop then, whatever is left; a campaign by itself, without --runs, takes seeds until then
  --summary FILE     one campaign, over seeds that fail too, in processes of their own; what they did is added to
                     the file, and seeds that it has already are left out: the same command goes on where it ended
  --processes N      so many of these at once; 1 when not given
  --add FILE         nothing is run: the summary is added to that of --summary (repeatable)`;

const root = join(import.meta.dirname, '..', '..');
const rooms = '{lib,engine,cluster,kv,node,coordinator,aggregator,operator,tsdbctl,test/sim}';
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

interface RunOptions {
  readonly seed: number;
  readonly runs: number;
  readonly size: number;
  readonly inputs: number;
  readonly endMillis: number;
  readonly onTrace: OnTrace;
}

/** Takes what happens, in words; null when nobody wants to know. */
type OnTrace = ((line: string) => void) | null;

type Fuzz = (seed: number, size: number, onTrace: OnTrace) => void | Promise<void>;

async function fuzzOf({ file }: Campaign): Promise<Fuzz> {
  return ((await import(join(root, file))) as { fuzz: Fuzz }).fuzz;
}

/** @returns false when a seed failed, which is printed with the command that runs it again */
async function run(campaign: Campaign, options: RunOptions): Promise<boolean> {
  const { name } = campaign;
  const fuzz = await fuzzOf(campaign);
  const { seed: first, size, inputs, endMillis, onTrace } = options;
  const started = Date.now();
  let told = started;
  let done = 0;
  const isDone = (): boolean => {
    if (Date.now() >= endMillis) return true;
    // A campaign that counts no inputs has so many runs.
    const counts = inputs > 0 && (done === 0 || inputsSoFar() > 0);
    return counts ? inputsSoFar() >= inputs : done >= options.runs;
  };
  for (let seed = first; !isDone(); seed += 1) {
    // Weak references are held until the event loop turns: without it memory would grow from seed
    // to seed.
    await turn();
    try {
      await fuzz(seed, size, onTrace);
    } catch (error) {
      console.log(`not ok - ${name}: seed ${seed}, after ${done} good runs`);
      console.log(error instanceof Error ? error.stack : error);
      console.log(`again: ${againOf(name, seed, size)}`);
      printCounts(name);
      return false;
    }
    done += 1;
    if (Date.now() - told < progressMillis) continue;
    told = Date.now();
    console.log(`  ${name}: ${done} runs${inputs > 0 ? `, ${inputsSoFar()} inputs` : ''}`);
  }
  const seconds = ((Date.now() - started) / 1000).toFixed(1);
  console.log(`ok - ${name}: seeds ${first} to ${first + done - 1}, size ${size}, ${seconds} s`);
  printCounts(name);
  return true;
}

/** Seeds of a long campaign, also behind one that fails: the summary stands in the file after each. */
async function runPart(campaign: Campaign, options: RunOptions, path: string): Promise<void> {
  const { name } = campaign;
  const { seed: first, runs, size, endMillis } = options;
  const fuzz = await fuzzOf(campaign);
  const empty = emptySummary(name, size, commitNow(), codeOf(root, campaign.file));
  let summary = empty;
  for (let seed = first; seed < first + runs && Date.now() < endMillis; seed += 1) {
    await turn();
    const before = process.cpuUsage();
    const failures: Summary['failures'][number][] = [];
    try {
      await fuzz(seed, size, null);
    } catch (thrown) {
      const error = messageOf(thrown).split('\n').slice(0, 2).join(' ').trim();
      failures.push({ seed, error, again: againOf(name, seed, size) });
      tellFailure(name, failures[0]!);
    }
    const { user, system } = process.cpuUsage(before);
    const counts = Object.fromEntries(takeCounts());
    const cpuSeconds = (user + system) / 1_000_000;
    const one = { ...empty, seeds: [[seed, seed]] as const, runs: 1, failures, cpuSeconds, counts };
    summary = added(summary, one);
    writeSummary(path, summary);
  }
}

/** @returns the sum, which is written */
function addUp(path: string, paths: readonly string[]): Summary {
  let sum = readSummary(path);
  for (const each of paths) {
    const summary = readSummary(each);
    if (summary === null) throw new Error(`there is no ${each}`);
    sum = sum === null ? summary : added(sum, summary);
  }
  writeSummary(path, sum!);
  return sum!;
}

function printSummary(summary: Summary): void {
  const { campaign, runs, failures, cpuSeconds, counts, commits, codes } = summary;
  for (const [what, number] of Object.entries(counts)) {
    console.log(`#   ${campaign}: ${what} ${number}`);
  }
  for (const failure of failures) tellFailure(campaign, failure);
  const each = (cpuSeconds / Math.max(runs, 1)).toFixed(1);
  console.log(
    `# runs ${runs}, CPU seconds a run ${each}, commits ${commits.join(', ')}, code ${codes.join(', ')}`,
  );
  console.log(`# fail ${failures.length}`);
}

/** By what was counted, over all campaigns. */
const totals = new Map<string, number>();

function printCounts(name: string): void {
  for (const [what, number] of takeCounts()) {
    console.log(`#   ${name}: ${what} ${number}`);
    totals.set(what, (totals.get(what) ?? 0) + number);
  }
}

async function main(): Promise<number> {
  const values = toolOptions(usage, {
    list: { type: 'boolean', default: false },
    only: { type: 'string', multiple: true, default: [] },
    seed: { type: 'string', default: '1' },
    runs: { type: 'string' },
    size: { type: 'string', default: '20' },
    inputs: { type: 'string', default: '0' },
    minutes: { type: 'string' },
    trace: { type: 'boolean', default: false },
    summary: { type: 'string' },
    processes: { type: 'string', default: '1' },
    add: { type: 'string', multiple: true, default: [] },
    // Of a process of --summary: where its part is written.
    part: { type: 'string' },
  });
  if (values.list) {
    for (const { name } of campaigns) console.log(name);
    return 0;
  }
  const { summary: summaryPath, part } = values;
  if (values.add.length > 0 && summaryPath !== undefined) {
    printSummary(addUp(summaryPath, values.add));
    return 0;
  }
  const chosen = campaigns.filter(
    ({ name }) => values.only.length === 0 || values.only.some((part) => name.includes(part)),
  );
  if (chosen.length === 0) {
    console.error(`no such campaign: ${values.only.join(', ')}; --list shows them`);
    return 2;
  }
  const isTimed = values.minutes !== undefined && chosen.length === 1;
  const runsDefault = isTimed ? Number.MAX_SAFE_INTEGER : 100;
  const options = {
    seed: wholeNumber('seed', values.seed, 0),
    runs: wholeNumber('runs', values.runs ?? String(runsDefault), 1),
    size: wholeNumber('size', values.size, 1),
    inputs: wholeNumber('inputs', values.inputs, 0),
    onTrace: values.trace ? (line: string) => console.log(line) : null,
    endMillis: Date.now() + wholeNumber('minutes', values.minutes ?? '1000', 1) * 60_000,
  };
  if (summaryPath !== undefined || part !== undefined) {
    if (chosen.length > 1) {
      console.error(`a summary is of one campaign: ${chosen.map(({ name }) => name).join(', ')}`);
      return 2;
    }
    const [campaign] = chosen;
    if (part !== undefined) {
      await runPart(campaign!, options, part);
      return 0;
    }
    const { seed, runs, size, endMillis } = options;
    const summary = await runLong({
      campaign: campaign!.name,
      file: campaign!.file,
      size,
      seeds: [seed, seed + runs - 1],
      processes: wholeNumber('processes', values.processes, 1),
      endMillis,
      path: summaryPath!,
    });
    printSummary(summary);
    return summary.failures.length === 0 ? 0 : 1;
  }
  let failed = 0;
  for (const campaign of chosen) if (!(await run(campaign, options))) failed += 1;
  let inputs = 0;
  for (const [what, number] of totals) if (what.startsWith('inputs of ')) inputs += number;
  if (inputs > 0) console.log(`# inputs ${inputs}`);
  console.log(`# campaigns ${chosen.length}\n# fail ${failed}`);
  return failed === 0 ? 0 : 1;
}

process.exitCode = await main();
