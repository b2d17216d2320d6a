/**
 * The node's write path with a real disk: batches of known series, log, sync, application, and
 * recovery.
 */
import { tmpdir } from 'node:os';
import type { WriteResponse } from '#cluster/node/service.ts';
import { BatchBuilder } from '#engine/batch/batch.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { realEnv } from '#lib/env/real.ts';
import { encodeTags } from '#lib/tags.ts';
import type { Database } from '../database.ts';
import { closeDatabases, never, openDatabase } from '../database_testing.ts';

const seriesOfBatch = 500;
/** Requests on their way at a time, as from several coordinators. */
const writesAtOnce = 8;

export async function bench(size: BenchSize): Promise<BenchResult[]> {
  const folder = `${tmpdir()}/tsdb-bench-${realEnv.random.bytes(6).toHex()}`;
  try {
    const isFull = size === 'full';
    return await new WriteBench(isFull ? 20 : 2, isFull ? 1200 : 4).run(folder);
  } finally {
    await closeDatabases();
    await realEnv.disk.removeTree(folder);
  }
}

const memoryBytesMax = 2 ** 31;

class WriteBench {
  /** Batches of which each has its own series, and how often each is written. */
  readonly #groupCount: number;
  readonly #scrapeCount: number;
  readonly #builder = new BatchBuilder();
  readonly #slots = new Uint32Array(seriesOfBatch);
  readonly #generations = new Uint32Array(seriesOfBatch);
  readonly #timestamps = new BigInt64Array(seriesOfBatch);
  readonly #values = new Float64Array(seriesOfBatch);
  readonly #startMillis = realEnv.clock.nowMillis() - 3_500_000;

  constructor(groupCount: number, scrapeCount: number) {
    this.#groupCount = groupCount;
    this.#scrapeCount = scrapeCount;
  }

  async run(folder: string): Promise<BenchResult[]> {
    const { database } = await openDatabase(folder, { memoryBytesMax });
    const dictionaries = Array.from({ length: this.#groupCount }, (_, i) => this.#newSeries(i));
    const references: Uint32Array[] = [];
    const newSeries = await this.#measured(async () => {
      for (const batch of dictionaries) references.push((await write(database, batch)).references);
    });
    let known = 0;
    for (let scrape = 1; scrape <= this.#scrapeCount; scrape += 1) {
      const batches = references.map((each) => this.#knownSeries(scrape, each));
      known += await this.#measured(async () => {
        for (let first = 0; first < batches.length; first += writesAtOnce) {
          const some = batches.slice(first, first + writesAtOnce);
          await Promise.all(some.map((batch) => write(database, batch)));
        }
      });
    }
    const logBytes = database.commitlog.counts.bytes;
    await closeDatabases();
    const recovery = await this.#measured(async () => {
      await openDatabase(folder, { memoryBytesMax });
    });
    const seriesCount = this.#groupCount * seriesOfBatch;
    const samples = (seriesCount * this.#scrapeCount) / 1e6;
    const result = (name: string, unit: string, value: number): BenchResult => ({
      name: `node/write: ${name}`,
      unit,
      value,
    });
    return [
      result('known series, sync always', 'CPU s/M samples', known / samples),
      result('new series', 'CPU s/M series', (newSeries / seriesCount) * 1e6),
      result('commit log', 'bytes/sample', logBytes / (samples * 1e6)),
      result('recovery', 'CPU s/M samples', recovery / samples),
    ];
  }

  #newSeries(group: number): Uint8Array {
    const builder = this.#builder;
    const slots = this.#slots;
    const generations = this.#generations;
    const timestamps = this.#timestamps;
    const values = this.#values;
    builder.begin(group + 1);
    for (let i = 0; i < seriesOfBatch; i += 1) {
      slots[i] = builder.addSeries(tagsOf(group, i), idSchemeCode.quoted, new Uint8Array(0));
      generations[i] = 0;
      timestamps[i] = BigInt(this.#startMillis);
      values[i] = i;
    }
    return this.#finish();
  }

  #knownSeries(scrape: number, references: Uint32Array): Uint8Array {
    const builder = this.#builder;
    const slots = this.#slots;
    const generations = this.#generations;
    const timestamps = this.#timestamps;
    const values = this.#values;
    builder.begin(1000 + scrape);
    const time = BigInt(this.#startMillis + Math.floor((scrape * 3_000_000) / this.#scrapeCount));
    for (let i = 0; i < seriesOfBatch; i += 1) {
      slots[i] = references[2 * i]!;
      generations[i] = references[2 * i + 1]!;
      timestamps[i] = time;
      values[i] = (scrape * (i + 1)) % 1000;
    }
    return this.#finish();
  }

  #finish(): Uint8Array {
    const builder = this.#builder;
    const slots = this.#slots;
    const generations = this.#generations;
    const timestamps = this.#timestamps;
    const values = this.#values;
    builder.setRows(seriesOfBatch, slots, generations, timestamps, 1_000_000, values);
    return builder.finish();
  }

  async #measured(work: () => Promise<void>): Promise<number> {
    const before = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1e6;
  }
}

function write(database: Database, batch: Uint8Array): Promise<WriteResponse> {
  return database.write(
    {
      namespace: 'metrics',
      placementVersion: database.shards.version,
      referenceEpoch: database.referenceEpoch,
      batch,
    },
    never,
  );
}

function tagsOf(group: number, i: number): Uint8Array {
  const tags = [
    { name: '__name__', value: `cpu_usage_${i % 10}` },
    { name: 'hostname', value: `host_${group}_${Math.floor(i / 10)}` },
  ];
  for (const name of ['arch', 'datacenter', 'os', 'rack', 'region', 'service', 'team']) {
    tags.push({ name, value: `${name}-${i % 7}` });
  }
  return encodeTags(tags);
}
