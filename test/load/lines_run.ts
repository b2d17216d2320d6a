/**
 * What lines of text cost here and in VictoriaMetrics: the same samples, of hosts as TSBS cpu-only has them, go to one single
 * node after the other as Influx's lines over HTTP and as Carbon's plaintext over TCP, over four connections, as fast as they
 * are taken. CPU and memory are those of the server's process; the bodies are in files before it starts. Each system must have
 * every sample at the end, by its own metrics and by queries, or the run fails. Prints a JSON line a run, and a table of medians.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { chosen, toolOptions } from '../command_line.ts';
import { call } from '../integration/process.ts';
import { freshFolder } from './folder.ts';
import { type Bodies, fields, intervalMillis, samplesOf, writeBodies } from './lines/data.ts';
import { type FormatName, formatNames, formats } from './lines/formats.ts';
import {
  bufferPastHours,
  startSystem,
  type System,
  type SystemName,
  systemNames,
} from './lines/systems.ts';
import { type Measured, tableOf } from './lines/table.ts';
import { ProcessUsage } from './process_usage.ts';

const hourMillis = 3_600_000;
const askMillis = 100;
/**
 * From the start on. Ours asks for rows of before it started once more in the next seconds, since a file may have others in
 * their places.
 */
const settleMillis = 20_000;
/** A system that takes nothing for so long has lost samples. */
const stalledMillis = 30_000;
const profileSeconds = 10;
/** How much of a log tells why a run failed. */
const logTail = 2_000;

const values = toolOptions(
  `node test/load/lines_run.ts [options]: what lines of text cost here and in VictoriaMetrics
  --victoria-metrics PATH   its binary; without it only ours is run
  --systems LIST            of ${systemNames.join(', ')}; all that there are when not given
  --formats LIST            of ${formatNames.join(', ')}; all when not given
  --hosts N                 of ${fields.length} series each; 1000 when not given
  --hours N                 of samples back from now, a scrape every ${intervalMillis / 1_000} s; 6 when not given, at most ${bufferPastHours - 1}
  --runs N                  of each system and format; 3 when not given
  --lines N                 scrapes of hosts in a body: lines of Influx; 1000 when not given, as Telegraf sends them
  --seed N                  1 when not given
  --profile FOLDER          for CPU profiles of the first ${profileSeconds} s of each load of ours, which cost CPU themselves`,
  {
    'victoria-metrics': { type: 'string' },
    systems: { type: 'string' },
    formats: { type: 'string', default: formatNames.join(',') },
    hosts: { type: 'string', default: '1000' },
    hours: { type: 'string', default: '6' },
    runs: { type: 'string', default: '3' },
    lines: { type: 'string', default: '1000' },
    seed: { type: 'string', default: '1' },
    profile: { type: 'string' },
  },
);
const [hostCount, hours, runs, seed, scrapesOfBody] = [
  values.hosts,
  values.hours,
  values.runs,
  values.seed,
  values.lines,
].map(Number) as [number, number, number, number, number];
const victoriaMetrics = values['victoria-metrics'];
const profileFolder = values.profile;
const systems = chosen(
  values.systems ?? (victoriaMetrics === undefined ? 'tsdb' : systemNames.join(',')),
  systemNames,
);
const formatsToRun = chosen(values.formats, formatNames);
if (systems.includes('victoria') && victoriaMetrics === undefined) {
  refuse('--victoria-metrics names its binary');
}
if (![hostCount, runs, scrapesOfBody].every((each) => Number.isSafeInteger(each) && each > 0)) {
  refuse('--hosts, --runs and --lines are whole numbers above 0');
}
if (!(hours > 0 && hours < bufferPastHours)) {
  refuse(`--hours is above 0 and at most ${bufferPastHours - 1}`);
}

const shape = {
  hostCount,
  scrapes: Math.max(1, Math.floor((hours * hourMillis) / intervalMillis)),
  endMillis: Math.floor(Date.now() / intervalMillis) * intervalMillis,
  seed,
  scrapesOfBody,
};
const folder = freshFolder('lines');
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => process.exit(1));
if (profileFolder !== undefined) mkdirSync(profileFolder, { recursive: true });

const results: Measured[] = [];
for (const format of formatsToRun) {
  const bodiesFolder = join(folder, format);
  mkdirSync(bodiesFolder);
  const bodies = writeBodies(bodiesFolder, shape, formats[format].bodyOf);
  for (let run = 0; run < runs; run += 1) {
    for (const system of systems) {
      const result = await measured(system, format, run, bodies);
      results.push(result);
      console.log(JSON.stringify(result));
    }
  }
  rmSync(bodiesFolder, { recursive: true });
}
console.log(`
${hostCount} hosts of ${fields.length} series, ${shape.scrapes} scrapes: ${samplesOf(shape)} samples, \
${scrapesOfBody * fields.length} a body; seed ${seed}; medians of ${runs}
${tableOf(results)}`);

async function measured(
  name: SystemName,
  format: FormatName,
  run: number,
  bodies: Bodies,
): Promise<Measured> {
  const ownFolder = join(folder, name);
  const system = await startSystem(name, { folder: ownFolder, victoriaMetrics });
  const usage = new ProcessUsage();
  const look = () => {
    usage.look(name, system.program.pid);
    return usage.all().get(name)!;
  };
  try {
    await delay(settleMillis);
    const before = look().cpuSeconds;
    const begin = performance.now();
    const profile = profileFolder === undefined ? null : system.profile?.(profileSeconds);
    await Promise.all(bodies.files.map((file) => formats[format].send(file, system)));
    const seconds = ((await allTaken(system, bodies.samples)) - begin) / 1_000;
    const { cpuSeconds, rssMaxBytes } = look();
    const profiled = await profile;
    if (typeof profiled === 'string') {
      writeFileSync(join(profileFolder!, `${format}-${run}.cpuprofile`), profiled);
    }
    await checkStored(system, name, format, bodies);
    return {
      format,
      system: name,
      cpuSecondsPerMillion: (cpuSeconds - before) / (bodies.samples / 1e6),
      samplesPerSecond: bodies.samples / seconds,
      peakMebibytes: rssMaxBytes / 2 ** 20,
    };
  } catch (error) {
    const { program } = system;
    // That it has ended is known a moment later.
    await delay(askMillis);
    const state = program.running ? 'runs' : 'has ended';
    const said = `its process ${state} and said at last:\n${program.log().slice(-logTail)}`;
    throw new Error(`${format} to ${name}: ${said}`, { cause: error });
  } finally {
    await system.stop();
    rmSync(ownFolder, { recursive: true, force: true });
  }
}

/** Waits until who asks sees all. @returns when all had been taken, as of performance.now() */
async function allTaken(system: System, samples: number): Promise<number> {
  let [last, lastMillis, takenMillis] = [-1, 0, 0];
  for (;;) {
    const { taken, pending, refused } = await system.counted();
    const now = performance.now();
    if (refused > 0 || taken > samples) {
      throw new Error(`${taken} of ${samples} samples taken, ${refused} refused`);
    }
    if (taken === samples && takenMillis === 0) takenMillis = now;
    if (taken === samples && pending === 0) return takenMillis;
    if (taken !== last) [last, lastMillis] = [taken, now];
    if (now - lastMillis > stalledMillis) {
      throw new Error(`${taken} of ${samples} samples taken, ${pending} pending, and no more come`);
    }
    await delay(askMillis);
  }
}

/**
 * Who asks sees them a while after they were counted.
 * @throws {Error} when a field has not as many series, samples and what they add up to as were sent
 */
async function checkStored(
  system: System,
  name: SystemName,
  format: FormatName,
  { sums }: Bodies,
): Promise<void> {
  // No sample is where it begins, for whether that one is in it is told differently.
  const range = `[${shape.scrapes * intervalMillis - intervalMillis / 2}ms]`;
  for (const [at, field] of fields.entries()) {
    const selector = formats[format].selectorOf(field)[name];
    const wanted = {
      [`count(last_over_time(${selector}${range}))`]: hostCount,
      [`sum(count_over_time(${selector}${range}))`]: hostCount * shape.scrapes,
      [`sum(sum_over_time(${selector}${range}))`]: sums[at]!,
    };
    for (const [query, value] of Object.entries(wanted)) {
      const lastMillis = performance.now() + stalledMillis;
      let found = await answerOf(system, query);
      while (found !== value && performance.now() < lastMillis) {
        await delay(askMillis);
        found = await answerOf(system, query);
      }
      if (found !== value) throw new Error(`${name}: ${query} is ${found} instead of ${value}`);
    }
  }
}

async function answerOf({ url }: System, query: string): Promise<number> {
  const parameters = new URLSearchParams({
    query,
    time: String(shape.endMillis / 1_000),
    nocache: '1',
  });
  const answer = await call('GET', `${url}/api/v1/query?${parameters}`);
  if (answer.status !== 200) throw new Error(`${query}: ${answer.status} ${answer.text}`);
  const { data } = answer.json as unknown as {
    readonly data: { readonly result: readonly { readonly value: readonly [number, string] }[] };
  };
  return Number(data.result[0]?.value[1] ?? 0);
}

function refuse(reason: string): never {
  console.error(reason);
  return process.exit(2);
}
