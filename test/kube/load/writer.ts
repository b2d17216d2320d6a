/**
 * Writes numbered samples to the coordinator without a pause and remembers which were acknowledged. A
 * request that was not acknowledged is sent again as it is, until it is. Runs in a pod, with the node's
 * image: `node writer.ts COORDINATOR_URL`. Serves on 8000:
 *   GET /acknowledged?from=N   {ticks: [[number, timestamp in milliseconds], …]} from the Nth one on
 *   GET /status                counts
 *   POST /stop                 ends the writing; answers when the last request has its answer
 */
import { createServer } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { laneCount, metric, problemOf, type Tick } from './lanes.ts';

const url = `${process.argv[2]}/api/v1/json/write`;
const pauseMillis = 100;
const timeoutMillis = 10_000;

const acknowledged: Tick[] = [];
const counts = { requests: 0, retries: 0, refused: 0, lastProblem: '', longestRetryMillis: 0 };
let stopping = false;

/** True when acknowledged, false when the same rows are to be sent again. */
async function send(body: string): Promise<boolean> {
  counts.requests++;
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
      signal: AbortSignal.timeout(timeoutMillis),
    });
    const text = await response.text();
    if (response.ok) return true;
    counts.lastProblem = `${response.status} ${text.slice(0, 300)}`;
    if (response.status >= 400 && response.status < 500 && response.status !== 429)
      counts.refused++;
  } catch (error) {
    counts.lastProblem = `${problemOf(error)}`;
  }
  return false;
}

async function writeUntilStopped(): Promise<void> {
  let lastMillis = 0;
  for (let number = 0; !stopping; number++) {
    const millis = Math.max(Date.now(), lastMillis + 1);
    lastMillis = millis;
    const rows = Array.from({ length: laneCount }, (_, lane) => ({
      tags: { __name__: metric, lane: String(lane) },
      timestamp: (millis / 1000).toFixed(3),
      value: number,
    }));
    const body = JSON.stringify(rows);
    while (!(await send(body))) {
      counts.retries++;
      counts.longestRetryMillis = Math.max(counts.longestRetryMillis, Date.now() - millis);
      if (stopping) return;
      await delay(200);
    }
    acknowledged.push([number, millis]);
    await delay(pauseMillis);
  }
}

const writing = writeUntilStopped();
createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
  const answer = (body: object) => response.end(JSON.stringify(body));
  response.setHeader('content-type', 'application/json');
  if (pathname === '/acknowledged') {
    answer({ ticks: acknowledged.slice(Number(searchParams.get('from') ?? 0)) });
  } else if (pathname === '/status') {
    answer({ acknowledged: acknowledged.length, ...counts });
  } else if (pathname === '/stop') {
    stopping = true;
    void writing.then(() => answer({ acknowledged: acknowledged.length }));
  } else response.writeHead(404).end();
}).listen(8000);
