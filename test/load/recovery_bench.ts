/**
 * Recovery of a server: CPU and wall seconds from the start of the process to the first right
 * answer over HTTP, after `kill -9`, after a clean stop, and with all rows in filesets. CPU is that
 * of the server, as Linux counts it.
 */
import { readFileSync, rmSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { NodeClient } from '#cluster/node/client.ts';
import { BatchBuilder } from '#engine/batch/batch.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { versionAtMillis } from '#lib/hybrid_clock.ts';
import { encodeTags } from '#lib/tags.ts';
import {
  call,
  createLocalDatabase,
  eventually,
  namespaceReady,
  NodeServer,
} from '../integration/process.ts';
import { freshFolder } from './folder.ts';
import { warmNamespaceOptions } from './warm_namespace.ts';

export interface RecoveryShape {
  readonly seriesCount: number;
  readonly rowsPerSeries: number;
}

/** How the process that had the data ended. */
export type Ending = 'kill -9' | 'clean stop' | 'filesets';

export interface Recovery {
  readonly ending: Ending;
  readonly wallSeconds: number;
  readonly cpuSeconds: number;
}

const endings: readonly Ending[] = ['kill -9', 'clean stop', 'filesets'];
const namespace = 'recovery';
const intervalMillis = 15_000;
const batchesAtOnce = 4;
const answerMillisMax = 120_000;
/** Of /proc on Linux, everywhere. */
const clockTicksPerSecond = 100;
const shapes: Readonly<Record<BenchSize, RecoveryShape>> = {
  small: { seriesCount: 50, rowsPerSeries: 20 },
  full: { seriesCount: 10_000, rowsPerSeries: 1440 },
};

export async function bench(size: BenchSize): Promise<BenchResult[]> {
  const results: BenchResult[] = [];
  for (const { ending, wallSeconds, cpuSeconds } of await recoveries(shapes[size], 1)) {
    const name = `recovery after ${ending}`;
    results.push({ name: `${name}: CPU`, unit: 's', value: cpuSeconds });
    results.push({ name: `${name}: wall`, unit: 's', value: wallSeconds });
  }
  return results;
}

/** Fills a server and starts it again after each ending, `runs` times. */
export async function recoveries(shape: RecoveryShape, runs: number): Promise<Recovery[]> {
  const folder = freshFolder('recovery');
  const server = await NodeServer.create({ folder });
  try {
    await server.start();
    const endMillis = await fill(server, shape);
    const question = new Question(server, shape, endMillis);
    await question.untilRight();
    const measured: Recovery[] = [];
    for (const ending of endings) {
      for (let run = 0; run < runs; run += 1) {
        if (ending === 'filesets') await flush(server);
        await server.program.stop(ending === 'kill -9' ? 'SIGKILL' : 'SIGTERM');
        const started = performance.now();
        server.program.start();
        await question.untilRight();
        const wallSeconds = (performance.now() - started) / 1000;
        measured.push({ ending, wallSeconds, cpuSeconds: cpuSeconds(server.program.pid) });
      }
    }
    return measured;
  } finally {
    await server.program.stop('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A query of one series over all its rows. */
class Question {
  readonly #server: NodeServer;
  readonly #url: string;
  readonly #expected: string;

  constructor(
    server: NodeServer,
    { seriesCount, rowsPerSeries }: RecoveryShape,
    endMillis: number,
  ) {
    const host = Math.floor(seriesCount / 2);
    const seconds = Math.ceil((rowsPerSeries * intervalMillis) / 1000);
    const query = `sum(count_over_time(usage{hostname="host_${host}"}[${seconds}s]))`;
    this.#server = server;
    this.#url = `${server.url}/api/v1/query?${new URLSearchParams({ query, time: String(endMillis / 1000) })}`;
    this.#expected = String(rowsPerSeries);
  }

  async untilRight(): Promise<void> {
    const end = performance.now() + answerMillisMax;
    let last = 'no answer';
    while (performance.now() < end) {
      if (!this.#server.program.running) throw new Error(`ended: ${this.#server.program.log()}`);
      const text = await fetch(this.#url).then(
        (answer) => answer.text(),
        () => last,
      );
      if (text.includes(`"${this.#expected}"`)) return;
      last = text;
      await delay(5);
    }
    throw new Error(`no right answer within ${answerMillisMax} ms: ${last}`);
  }
}

/** From the start of the process on, which its own metrics do not know. */
function cpuSeconds(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / clockTicksPerSecond;
}

async function flush(server: NodeServer): Promise<void> {
  const { status, text } = await call(
    'POST',
    `http://127.0.0.1:${server.ports.httpNode}/flush`,
    {},
  );
  if (status !== 200) throw new Error(`flush: ${status} ${text}`);
}

/**
 * A namespace that takes rows of the last eleven hours, with all rows in it. @returns time of the
 * last one
 */
async function fill(server: NodeServer, shape: RecoveryShape): Promise<number> {
  await createLocalDatabase(server, 'first');
  await call('POST', `${server.url}/api/v1/services/tsdb/namespace`, {
    name: namespace,
    options: warmNamespaceOptions,
  });
  await namespaceReady(server.url, namespace);
  await call('DELETE', `${server.url}/api/v1/services/tsdb/namespace/first`);
  await eventually('the first namespace is gone', async () => {
    const answer = await call('GET', `${server.url}/api/v1/services/tsdb/namespace`);
    return !answer.text.includes('"first"');
  });
  return writeRows(server, shape);
}

async function writeRows(server: NodeServer, shape: RecoveryShape): Promise<number> {
  const { seriesCount, rowsPerSeries } = shape;
  const client = new NodeClient({ target: `127.0.0.1:${server.ports.grpc}` });
  try {
    const { signal } = new AbortController();
    const { placementVersion } = await client.health(signal);
    const builder = new BatchBuilder();
    const slots = new Uint32Array(seriesCount);
    const generations = new Uint32Array(seriesCount);
    const values = new Float64Array(seriesCount).fill(50);
    const endMillis = Math.floor(Date.now() / 1000) * 1000;
    let random = 1;
    const send = async (row: number, referenceEpoch: string) => {
      const millis = endMillis - (rowsPerSeries - 1 - row) * intervalMillis;
      for (let i = 0; i < seriesCount; i += 1) {
        random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0;
        values[i] = Math.min(100, Math.max(0, values[i]! + ((random >>> 24) % 5) - 2));
      }
      const timestamps = new BigInt64Array(seriesCount).fill(BigInt(millis));
      builder.setRows(seriesCount, slots, generations, timestamps, 1_000_000, values);
      const batch = builder.finish();
      const request = { namespace, placementVersion, referenceEpoch, batch };
      const answer = await client.write(request, signal);
      if (answer.outcomes.length > 0) throw new Error('a row was refused');
      return answer;
    };
    const versionOf = (row: number) => versionAtMillis(endMillis + row);
    builder.begin(versionOf(0));
    for (let i = 0; i < seriesCount; i += 1) {
      slots[i] = builder.addSeries(encodeTags(tagsOf(i)), idSchemeCode.quoted, new Uint8Array(0));
    }
    const { references, referenceEpoch } = await send(0, '');
    for (let i = 0; i < seriesCount; i += 1) {
      slots[i] = references[2 * i]!;
      generations[i] = references[2 * i + 1]!;
    }
    for (let first = 1; first < rowsPerSeries; first += batchesAtOnce) {
      const answers = [];
      const end = Math.min(first + batchesAtOnce, rowsPerSeries);
      for (let row = first; row < end; row += 1) {
        builder.begin(versionOf(row));
        answers.push(send(row, referenceEpoch));
      }
      await Promise.all(answers);
    }
    return endMillis;
  } finally {
    client[Symbol.dispose]();
  }
}

function tagsOf(i: number): { name: string; value: string }[] {
  const tags = [
    { name: '__name__', value: 'usage' },
    { name: 'hostname', value: `host_${i}` },
  ];
  for (const name of ['arch', 'datacenter', 'os', 'rack', 'region', 'service', 'team']) {
    tags.push({ name, value: `${name}-${i % 7}` });
  }
  return tags;
}
