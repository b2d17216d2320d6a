/**
 * What rollups cost here and elsewhere: many series are written in their own time, as scrapers do, to the single node, to
 * M3's coordinator and to VictoriaMetrics, with twenty rules and without; each series is in four rollups. CPU and memory are
 * of the one process that takes rows and makes rollups (what M3 gives its storage is elsewhere). Whether all rows are in
 * rollups is asked at the end. Prints a JSON line a run. One that refuses rows, since they have become too old for it, has
 * the figures until then.
 *
 *     node test/load/rollups_cost_run.ts [--systems tsdb,m3,victoria] [--modes none,rules] [--series 1000000]
 *         [--scrapes 20] [--interval 15] [--m3coordinator PATH] [--victoria-metrics PATH]
 */
import { rmSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { messageOf } from '#lib/errors.ts';
import { chosen, toolOptions } from '../command_line.ts';
import { call } from '../integration/process.ts';
import { freshFolder } from './folder.ts';
import { ProcessUsage } from './process_usage.ts';
import {
  expected,
  type Expected,
  rolledUp,
  selectorOf,
  windowSeconds,
} from './rollups_cost/rules.ts';
import {
  bufferPastSeconds,
  type Mode,
  modes,
  startSystem,
  type System,
  type SystemName,
  systemNames,
} from './rollups_cost/systems.ts';
import { send, type Sent } from './send_frames.ts';
import { seriesOfSlice, SliceBody } from './soak_data.ts';

const text = { type: 'string' } as const;
const values = toolOptions(
  `node test/load/rollups_cost_run.ts [options]: what rollups cost here and elsewhere
  --systems LIST            of ${systemNames.join(', ')}; all when not given
  --modes LIST              of none, rules; both when not given
  --series N                1000000 when not given
  --scrapes N               20 when not given
  --interval S              seconds between two; 15 when not given
  --m3coordinator PATH      m3coordinator of the PATH when not given
  --victoria-metrics PATH   victoria-metrics of the PATH when not given`,
  {
    systems: { type: 'string', default: systemNames.join(',') },
    modes: { type: 'string', default: modes.join(',') },
    series: { type: 'string', default: '1000000' },
    scrapes: { type: 'string', default: '20' },
    interval: { type: 'string', default: '15' },
    m3coordinator: { ...text, default: 'm3coordinator' },
    'victoria-metrics': { ...text, default: 'victoria-metrics' },
  },
);
const [seriesCount, scrapes, intervalSeconds] = [
  values.series,
  values.scrapes,
  values.interval,
].map(Number) as [number, number, number];

/** Bodies of a scrape go out in so many parts of its interval, one after the other, each with its own time, as those of scrapers. */
const partsOfScrape = 30;
/** From the last row on: ours makes windows for good by then, in stretches of half the buffer. */
const settleSeconds: Readonly<Record<Mode, number>> = {
  none: 2 * windowSeconds,
  rules: 2 * bufferPastSeconds + 2 * windowSeconds,
};
const askMillis = 5_000;
const refusalTextMax = 300;

interface Measured {
  readonly system: SystemName;
  readonly mode: Mode;
  /** Of the first scrape, which makes all series. */
  readonly firstScrapeCpuSeconds: number;
  readonly firstScrapeSeconds: number;
  /** Rows of all others that were taken, and why no more of them were; null when all were. */
  readonly taken: number;
  readonly refused: string | null;
  /** Of these, and of everything until rollups are final. */
  readonly loadCpuSeconds: number;
  readonly cpuSeconds: number;
  readonly cpuSecondsPerMillion: number;
  readonly peakMebibytes: number;
  /** The longest time that a part of a scrape took. */
  readonly slowestMillis: number;
  readonly lateSeconds: number;
  readonly retries: number;
  /** Of gauges: what is in rollups of what was written, from 0 to 1. Of counters: how far they have grown, likewise. */
  readonly sums: number;
  readonly grown: number;
  readonly outputs: number;
  readonly expectedOutputs: number;
}

const bodies = Array.from(
  { length: Math.ceil(seriesCount / seriesOfSlice) },
  (_, slice) => new SliceBody(slice, seriesCount, 0),
);
const wanted = expected(seriesCount, scrapes);

async function measured(name: SystemName, mode: Mode): Promise<Measured> {
  const folder = freshFolder('rollups-cost');
  const { m3coordinator, 'victoria-metrics': victoriaMetrics } = values;
  const system = await startSystem(name, { folder, mode, m3coordinator, victoriaMetrics });
  const usage = new ProcessUsage();
  const cpuSeconds = (): number => {
    usage.look(name, system.program.pid);
    return usage.all().get(name)!.cpuSeconds;
  };
  try {
    const windowMillis = windowSeconds * 1_000;
    const beganMillis = Date.now();
    const before = cpuSeconds();
    let [slowestMillis, retries] = [0, 0];
    // New series take some of them minutes, in which rows would become too old.
    for (let part = 0; part < partsOfScrape; part += 1) {
      retries += (await sendPart(system, 0, part, Date.now())).retries;
    }
    const firstScrape = cpuSeconds() - before;
    const firstScrapeSeconds = (Date.now() - beganMillis) / 1_000;
    const startMillis = (Math.floor(Date.now() / windowMillis) + 1) * windowMillis + 1_000;
    let taken = 0;
    const sendOthers = async (): Promise<void> => {
      for (let scrape = 1; scrape < scrapes; scrape += 1) {
        const scrapeMillis = startMillis + (scrape - 1) * intervalSeconds * 1_000;
        for (let part = 0; part < partsOfScrape; part += 1) {
          const partMillis = scrapeMillis + (part * intervalSeconds * 1_000) / partsOfScrape;
          await delay(Math.max(0, partMillis - Date.now()));
          const sent = await sendPart(system, scrape, part, Math.floor(partMillis));
          slowestMillis = Math.max(slowestMillis, sent.seconds * 1_000);
          retries += sent.retries;
          taken += sent.samples;
        }
      }
    };
    const refused = await sendOthers().then(
      () => null,
      (error: unknown) => messageOf(error).slice(0, refusalTextMax),
    );
    const plannedSeconds = (scrapes - 1) * intervalSeconds;
    const lateSeconds = Math.max(0, (Date.now() - startMillis) / 1_000 - plannedSeconds);
    const loaded = cpuSeconds() - before;
    if (refused === null) await delay(settleSeconds[mode] * 1_000);
    const all = cpuSeconds() - before;
    const peakMebibytes = Math.round(usage.all().get(name)!.rssMaxBytes / 2 ** 20);
    const found = mode === 'none' || refused !== null ? null : await foundIn(system, beganMillis);
    return {
      system: name,
      mode,
      firstScrapeCpuSeconds: firstScrape,
      firstScrapeSeconds,
      taken,
      refused,
      loadCpuSeconds: loaded - firstScrape,
      cpuSeconds: all,
      cpuSecondsPerMillion: taken === 0 ? 0 : (all - firstScrape) / (taken / 1e6),
      peakMebibytes,
      slowestMillis: Math.round(slowestMillis),
      lateSeconds,
      retries,
      sums: found === null ? 0 : partOf(found, false),
      grown: found === null ? 0 : partOf(found, true),
      outputs: found === null ? 0 : found.reduce((sum, each) => sum + each.outputs, 0),
      expectedOutputs: wanted.reduce((sum, each) => sum + each.outputs, 0),
    };
  } finally {
    await system.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function sendPart(
  system: System,
  scrape: number,
  part: number,
  timestampMillis: number,
): Promise<Sent> {
  const [from, to] = [part, part + 1].map((at) =>
    Math.floor((bodies.length * at) / partsOfScrape),
  ) as [number, number];
  const samples = bodies.slice(from, to).reduce((sum, each) => sum + each.seriesCount, 0);
  return send(
    system.writeUrl,
    {
      samples,
      startMillis: timestampMillis,
      endMillis: timestampMillis,
      *frames() {
        for (const slice of bodies.slice(from, to)) {
          yield { samples: slice.seriesCount, body: slice.at(scrape, timestampMillis) };
        }
      },
    },
    0,
  );
}

/** What is in the rollups since a time, in the order of the rules. */
async function foundIn(system: System, sinceMillis: number): Promise<readonly Expected[]> {
  const range = `${Math.ceil((Date.now() - sinceMillis) / 1_000) + windowSeconds}s`;
  const found: Expected[] = [];
  for (const each of rolledUp) {
    const selector = selectorOf(each, system.isVictoria);
    const overTime = each.isCounter ? 'last_over_time' : 'sum_over_time';
    found.push({
      outputs: await answerOf(system, `count(last_over_time(${selector}[${range}]))`),
      sum: await answerOf(system, `sum(${overTime}(${selector}[${range}]))`),
    });
  }
  return found;
}

async function answerOf(system: System, query: string): Promise<number> {
  for (let tries = 0; tries < 3; tries += 1) {
    const answer = await call(
      'GET',
      `${system.queryUrl}/api/v1/query?query=${encodeURIComponent(query)}&nocache=1`,
    );
    if (answer.status !== 200) throw new Error(`${query}: ${answer.status} ${answer.text}`);
    const { data } = answer.json as unknown as {
      readonly data: { readonly result: readonly { readonly value: readonly [number, string] }[] };
    };
    if (data.result.length > 0) return Number(data.result[0]!.value[1]);
    await delay(askMillis);
  }
  return 0;
}

function partOf(found: readonly Expected[], counters: boolean): number {
  let [is, should] = [0, 0];
  for (const [rule, { isCounter }] of rolledUp.entries()) {
    if (isCounter !== counters) continue;
    is += found[rule]!.sum;
    should += wanted[rule]!.sum;
  }
  return is / should;
}

for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => process.exit(1));
for (const system of chosen(values.systems, systemNames)) {
  for (const mode of chosen(values.modes, modes)) {
    console.log(JSON.stringify(await measured(system, mode)));
  }
}
