/** The node's write path with a real disk: batches of known series, log, sync, application, and recovery. */
import { tmpdir } from 'node:os';
import { BatchBuilder } from '#engine/batch.ts';
import type { BenchResult, BenchSize } from '#lib/bench.ts';
import { realEnv } from '#lib/env/real.ts';
import { idSchemeCode } from '#lib/id_scheme.ts';
import { encodeTags } from '#lib/tags.ts';
import { closeDatabases, never, openDatabase } from './database_testing.ts';

const seriesOfBatch = 500;
/** Requests on their way at a time, as from several coordinators. */
const writesAtOnce = 8;

export async function bench(size: BenchSize): Promise<BenchResult[]> {
  const batchCount = size === 'small' ? 16 : 4000;
  const batchSeries = size === 'small' ? 4 : 20;
  const folder = `${tmpdir()}/tsdb-bench-${realEnv.random.bytes(6).toHex()}`;
  try {
    return await measure(folder, batchCount, batchSeries);
  } finally {
    await closeDatabases();
    await realEnv.disk.removeTree(folder);
  }
}

async function measure(
  folder: string,
  batchCount: number,
  batchSeries: number,
): Promise<BenchResult[]> {
  const { database } = await openDatabase(folder, { memoryBytesMax: 2 ** 31 });
  const startMillis = realEnv.clock.nowMillis() - 3_000_000;
  const builder = new BatchBuilder();
  const rows = {
    slots: new Uint32Array(seriesOfBatch),
    generations: new Uint32Array(seriesOfBatch),
    timestamps: new BigInt64Array(seriesOfBatch),
    values: new Float64Array(seriesOfBatch),
  };
  const finish = (): Uint8Array => {
    const { slots, generations, timestamps, values } = rows;
    builder.setRows(seriesOfBatch, slots, generations, timestamps, 1_000_000, values);
    return builder.finish();
  };
  const write = (batch: Uint8Array) =>
    database.write(
      {
        namespace: 'metrics',
        placementVersion: database.shards.version,
        referenceEpoch: database.referenceEpoch,
        batch,
      },
      never,
    );
  const references: Uint32Array[] = [];
  const newSeries = await cpuSeconds(async () => {
    for (let group = 0; group < batchSeries; group += 1) {
      builder.begin(group + 1);
      for (let i = 0; i < seriesOfBatch; i += 1) {
        rows.slots[i] = builder.addSeries(tagsOf(group, i), idSchemeCode.quoted, new Uint8Array(0));
        rows.generations[i] = 0;
        rows.timestamps[i] = BigInt(startMillis);
        rows.values[i] = i;
      }
      references.push((await write(finish())).references);
    }
  });
  const batches: Uint8Array[] = [];
  for (let number = 0; number < batchCount; number += 1) {
    const known = references[number % batchSeries]!;
    const scrape = 1 + Math.floor(number / batchSeries);
    builder.begin(1000 + number);
    for (let i = 0; i < seriesOfBatch; i += 1) {
      rows.slots[i] = known[2 * i]!;
      rows.generations[i] = known[2 * i + 1]!;
      rows.timestamps[i] = BigInt(startMillis + scrape * 10_000);
      rows.values[i] = (scrape * (i + 1)) % 1000;
    }
    batches.push(finish());
  }
  const knownSeries = await cpuSeconds(async () => {
    let next = 0;
    const writer = async () => {
      while (next < batches.length) {
        next += 1;
        await write(batches[next - 1]!);
      }
    };
    await Promise.all(Array.from({ length: writesAtOnce }, writer));
  });
  const logBytes = database.commitlog.counts.bytes;
  await closeDatabases();
  const recovery = await cpuSeconds(async () => {
    await openDatabase(folder, { memoryBytesMax: 2 ** 31 });
  });
  const samples = (batchCount * seriesOfBatch) / 1e6;
  const seriesCount = (batchSeries * seriesOfBatch) / 1e6;
  const result = (name: string, unit: string, value: number): BenchResult => ({
    name: `node/write: ${name}`,
    unit,
    value,
  });
  return [
    result('known series, sync always', 'CPU s/M samples', knownSeries / samples),
    result('new series', 'CPU s/M series', newSeries / seriesCount),
    result('commit log', 'bytes/sample', logBytes / (samples * 1e6)),
    result('recovery', 'CPU s/M samples', recovery / samples),
  ];
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

async function cpuSeconds(work: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}
