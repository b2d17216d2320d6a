/**
 * Reads back what the writer had acknowledged, again and again, and remembers what an answer lacked.
 * Runs in a pod: `node checker.ts COORDINATOR_URL WRITER_URL`. Serves on 8000:
 *   GET /report   of all checks so far
 *   GET /begin    the longest time without a check is counted from now on
 *   GET /full     checks everything from the first sample on, now; 503 when a query failed
 */
import { createServer } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { laneCount, metric, problemOf, type Tick } from './lanes.ts';

const [coordinator, writer] = process.argv.slice(2) as [string, string];
/**
 * The running check looks at the samples of this time: those that moves and restarts endanger most.
 */
const recentMillis = 60_000;
const fullWindowMillis = 120_000;
const timeoutMillis = 15_000;
const missingShownMax = 20;

const report = {
  checks: 0,
  samplesChecked: 0,
  samplesMissing: 0,
  missing: [] as string[],
  queriesFailed: 0,
  lastProblem: '',
  longestWithoutCheckMillis: 0,
};
const ticks: Tick[] = [];
/** When a check was answered last. */
let lastMillis = Date.now();

async function json(url: string): Promise<unknown> {
  const response = await fetch(url, { signal: AbortSignal.timeout(timeoutMillis) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${response.status} ${text.slice(0, 300)}`);
  return JSON.parse(text) as unknown;
}

async function learnAcknowledged(): Promise<void> {
  const answer = (await json(`${writer}/acknowledged?from=${ticks.length}`)) as { ticks: Tick[] };
  ticks.push(...answer.ticks);
}

interface Matrix {
  /** An answer may lack what nodes have that were not heard. */
  readonly warnings?: readonly string[];
  readonly data: {
    readonly result: readonly {
      readonly metric: { readonly lane: string };
      readonly values: readonly (readonly [number, string])[];
    }[];
  };
}

/** Every acknowledged sample of (fromMillis, toMillis]; how many there are. */
async function check(fromMillis: number, toMillis: number): Promise<number> {
  const expected = ticks.filter(([, millis]) => millis > fromMillis && millis <= toMillis);
  const query = `${metric}[${Math.ceil(toMillis - fromMillis)}ms]`;
  const parameters = new URLSearchParams({ query, time: (toMillis / 1000).toFixed(3) });
  const answer = (await json(`${coordinator}/api/v1/query?${parameters}`)) as Matrix;
  const { data, warnings = [] } = answer;
  // It says itself that it may lack something: that is no whole answer, as one that failed is none.
  const isPartial = warnings.some((warning) => warning.startsWith('fewer replicas than asked for'));
  if (isPartial) throw new Error(`not whole: ${warnings.join('; ')}`);
  const lanes = new Map(
    data.result.map(({ metric: { lane }, values }) => [
      lane,
      new Map(values.map(([seconds, value]) => [Math.round(seconds * 1000), value])),
    ]),
  );
  for (let lane = 0; lane < laneCount; lane++) {
    const samples = lanes.get(String(lane));
    for (const [number, millis] of expected) {
      const value = samples?.get(millis);
      if (value !== undefined && Number(value) === number) continue;
      report.samplesMissing++;
      if (report.missing.length >= missingShownMax) continue;
      const at = new Date(millis).toISOString();
      const now = new Date().toISOString();
      report.missing.push(`lane ${lane} tick ${number} at ${at}: ${value ?? 'none'}, seen ${now}`);
    }
  }
  return expected.length * laneCount;
}

async function checkForever(): Promise<never> {
  for (;;) {
    try {
      await learnAcknowledged();
      const last = ticks.at(-1)?.[1];
      if (last !== undefined) {
        report.samplesChecked += await check(last - recentMillis, last);
        report.checks++;
        const now = Date.now();
        const without = now - lastMillis;
        report.longestWithoutCheckMillis = Math.max(report.longestWithoutCheckMillis, without);
        lastMillis = now;
      }
    } catch (error) {
      report.queriesFailed++;
      report.lastProblem = `${new Date().toISOString()} ${problemOf(error)}`;
    }
    await delay(500);
  }
}

async function checkAll(): Promise<object> {
  await learnAcknowledged();
  const first = ticks[0]?.[1];
  const last = ticks.at(-1)?.[1];
  let samples = 0;
  const missingBefore = report.samplesMissing;
  if (first !== undefined && last !== undefined) {
    for (let from = first - 1; from < last; from += fullWindowMillis) {
      samples += await check(from, Math.min(from + fullWindowMillis, last));
    }
  }
  const samplesMissing = report.samplesMissing - missingBefore;
  return { ticks: ticks.length, samples, samplesMissing, missing: report.missing };
}

createServer((request, response) => {
  // kubectl adds its time limit to the URL.
  const { pathname } = new URL(request.url ?? '/', 'http://localhost');
  response.setHeader('content-type', 'application/json');
  if (pathname === '/report') {
    const without = Math.max(report.longestWithoutCheckMillis, Date.now() - lastMillis);
    response.end(JSON.stringify({ ...report, longestWithoutCheckMillis: without }));
  } else if (pathname === '/begin') {
    report.longestWithoutCheckMillis = 0;
    lastMillis = Date.now();
    response.end('{}');
  } else if (pathname === '/full') {
    checkAll().then(
      (answer) => response.end(JSON.stringify(answer)),
      (error: unknown) => response.writeHead(503).end((error as Error).message),
    );
  } else response.writeHead(404).end();
}).listen(8000);
await checkForever();
