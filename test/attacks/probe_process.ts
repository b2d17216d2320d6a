/**
 * The others: a process of its own that asks a small query and writes a small batch all the while,
 * as honest clients do, and measures how long each takes. Its parent (probe.ts) takes what was
 * measured, and has it read back what was acknowledged.
 */
import { readFileSync } from 'node:fs';
import { Agent, request as requestHttp } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { remoteWriteBody } from '../integration/remote_write_body.ts';
import { marker } from './victim.ts';
import {
  acknowledgedStepsMax,
  type FromProbe,
  honest,
  type Measured,
  noneMeasured,
  periodMillis,
  toldMax,
  type ToProbe,
} from './probe.ts';

const port = Number(process.argv[2]);
const victimPid = Number(process.argv[3]);
const host = '127.0.0.1';

/** How long an honest client goes on with one request before it gives it up. */
const patienceMillis = 60_000;
/** Every so many queries come on a new connection. */
const newConnectionEvery = 10;

let measured: Measured = noneMeasured();

interface Reply {
  readonly status: number;
  readonly text: string;
  readonly retryAfterSeconds: number;
}

async function send(agent: Agent | false, path: string, body: Uint8Array | null): Promise<Reply> {
  const start = victimCpuMillis();
  const reply = await answerOf(agent, path, body);
  const held = victimCpuMillis() - start;
  measured.heldCpuMillisMax = Math.max(measured.heldCpuMillisMax, held);
  return reply;
}

/** Of its main thread, since its start. */
function victimCpuMillis(): number {
  try {
    const told = readFileSync(`/proc/${victimPid}/task/${victimPid}/schedstat`, 'utf8');
    return Number(told.split(' ')[0]) / 1e6;
  } catch {
    return 0; // It has ended.
  }
}

function answerOf(agent: Agent | false, path: string, body: Uint8Array | null): Promise<Reply> {
  return new Promise((resolve) => {
    const fail = (error: Error): void => {
      resolve({ status: 0, text: error.message, retryAfterSeconds: 0 });
    };
    const method = body === null ? 'GET' : 'POST';
    const request = requestHttp({ host, port, path, method, agent }, (response) => {
      const parts: Buffer[] = [];
      response.on('data', (part: Buffer) => parts.push(part));
      response.on('end', () => {
        resolve({
          status: response.statusCode!,
          text: Buffer.concat(parts).toString(),
          retryAfterSeconds: Number(response.headers['retry-after'] ?? 0),
        });
      });
      response.on('error', fail);
    });
    request.setTimeout(patienceMillis, () => request.destroy(new Error('no answer')));
    request.on('error', fail);
    request.end(body);
  });
}

/**
 * A client that sends every `periodMillis` would have sent others while it waited for one: these
 * count too, each with what was left of the wait when it came due. Else a process that stands still
 * for two seconds would have one slow request, and a client that saw a hundred.
 */
function noteLatency(of: number[], millis: number): void {
  for (let left = millis; left > 0; left -= periodMillis) of.push(left);
}

function noteFailure(reply: Reply, what: string): void {
  measured.failed += 1;
  if (measured.failures.length < toldMax) {
    measured.failures.push(`${what}: ${reply.status} ${reply.text.slice(0, 200)}`);
  }
}

const queryAgent = new Agent({ keepAlive: true, maxSockets: 1 });
const query = `last_over_time(${marker.name}{part="3"}[24h])`;
const queryPath = `/api/v1/query?query=${encodeURIComponent(query)}`;
const valueWanted = String(marker.valueOf(3, marker.samplesOfSeries - 1));

async function ask(round: number): Promise<void> {
  const start = performance.now();
  const agent = round % newConnectionEvery === 0 ? false : queryAgent;
  const reply = await send(agent, queryPath, null);
  noteLatency(measured.queryMillis, performance.now() - start);
  if (reply.status === 200) {
    const result = (JSON.parse(reply.text) as QueryAnswer).data.result;
    if (result.length !== 1 || result[0]!.value?.[1] !== valueWanted) {
      measured.wrong += 1;
      const { wrongAnswers } = measured;
      if (wrongAnswers.length < toldMax) wrongAnswers.push(`${query}: ${reply.text.slice(0, 300)}`);
    }
  } else if (reply.status === 429 || reply.status === 503) {
    measured.refused += 1;
  } else {
    noteFailure(reply, 'query');
  }
}

const writeAgent = new Agent({ keepAlive: true, maxSockets: 1 });
/** Of each step that was acknowledged: its timestamp. */
const acknowledged: { readonly step: number; readonly timestampMillis: number }[] = [];
let lastMillis = 0;

async function write(step: number): Promise<void> {
  // One row a millisecond at most, so that a time says which step it is of.
  const timestampMillis = Math.max(Date.now(), lastMillis + 1);
  lastMillis = timestampMillis;
  const body = remoteWriteBody(
    Array.from({ length: honest.seriesCount }, (_, series) => ({
      labels: { __name__: honest.name, row: String(series) },
      samples: [{ timestampMillis, value: honest.valueOf(series, step) }],
    })),
  );
  const start = performance.now();
  for (;;) {
    const reply = await send(writeAgent, '/api/v1/compat/remote/write', body);
    const millis = performance.now() - start;
    if (reply.status === 200 || reply.status === 204) {
      noteLatency(measured.writeMillis, millis);
      acknowledged.push({ step, timestampMillis });
      if (acknowledged.length > acknowledgedStepsMax) throw new Error('more steps than are kept');
      return;
    }
    const mayPass = reply.status === 429 || reply.status === 503;
    if (!mayPass || millis > patienceMillis) {
      noteFailure(reply, `write of step ${step}, after ${Math.round(millis)} ms`);
      return;
    }
    measured.refused += 1;
    await delay(Math.max(100, reply.retryAfterSeconds * 1000));
  }
}

interface QueryAnswer {
  readonly data: {
    readonly result: readonly {
      readonly metric: { readonly row: string };
      readonly value?: readonly [number, string];
      readonly values?: readonly (readonly [number, string])[];
    }[];
  };
}

/** Steps of one reading, so that none is a large query. */
const stepsOfReading = 2000;
let readSteps = 0;

/** Reads what was acknowledged, all of it or since the last time; says what is missing or other. */
async function readBack(isAll: boolean): Promise<string[]> {
  if (isAll) readSteps = 0;
  const problems: string[] = [];
  const end = acknowledged.length;
  for (; readSteps < end; readSteps = Math.min(end, readSteps + stepsOfReading)) {
    const steps = acknowledged.slice(readSteps, Math.min(end, readSteps + stepsOfReading));
    const first = steps[0]!.timestampMillis;
    const last = steps.at(-1)!.timestampMillis;
    const window = `${honest.name}[${last - first + 1}ms]`;
    const path = `/api/v1/query?query=${encodeURIComponent(window)}&time=${last / 1000}`;
    // Not the small query that is measured.
    let reply = await answerOf(false, path, null);
    for (let tries = 0; reply.status !== 200 && tries < 60; tries += 1) {
      await delay(500);
      reply = await answerOf(false, path, null);
    }
    if (reply.status !== 200) {
      problems.push(`${window}: ${reply.status} ${reply.text.slice(0, 200)}`);
      continue;
    }
    const rows = new Map(
      (JSON.parse(reply.text) as QueryAnswer).data.result.map(({ metric, values }) => [
        Number(metric.row),
        new Map(values!.map(([seconds, value]) => [Math.round(seconds * 1000), value])),
      ]),
    );
    let missing = 0;
    let wrong = 0;
    for (const { step, timestampMillis } of steps) {
      for (let series = 0; series < honest.seriesCount; series += 1) {
        const value = rows.get(series)?.get(timestampMillis);
        if (value === undefined) missing += 1;
        else if (value !== String(honest.valueOf(series, step))) wrong += 1;
      }
    }
    if (missing + wrong > 0) {
      problems.push(`${window} to ${last}: ${missing} acknowledged rows missing, ${wrong} wrong`);
    }
  }
  return problems;
}

function tell(message: FromProbe): void {
  process.send!(message);
}

/** Requests that have begun and are not over. */
const underWay = new Set<Promise<void>>();

process.on('message', (message: ToProbe) => {
  if (message.what === 'take') {
    void Promise.all(underWay).then(() => {
      tell({ what: 'measured', measured });
      measured = noneMeasured();
    });
  } else {
    void readBack(message.isAll).then((problems) => tell({ what: 'read', problems }));
  }
});
process.once('disconnect', () => process.exit(0));

async function goOn(action: (round: number) => Promise<void>): Promise<never> {
  for (let round = 0; ; round += 1) {
    const due = performance.now() + periodMillis;
    const doing = action(round);
    underWay.add(doing);
    await doing;
    underWay.delete(doing);
    await delay(Math.max(1, due - performance.now()));
  }
}

void goOn(ask);
void goOn(write);
