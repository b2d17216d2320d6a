import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseWriteRequest } from '#engine/write_decoder/remote_write_twin.ts';
import { decodeSnappy } from '#engine/write_decoder/snappy.ts';
import { encodeTags } from '#lib/tags.ts';
import { NodeServer } from '../integration/process.ts';
import {
  Churn,
  ChurnBody,
  type ChurnOptions,
  type ChurnRecord,
  labelsOf,
  verdictOf,
} from './churn_run.ts';

test('a body of the churn has the labels, times and values of its scrape', () => {
  const body = new ChurnBody(5, 25);
  for (const generation of [3, 12_345_678]) {
    const millis = 1_790_000_000_123;
    const raw = decodeSnappy(body.at(generation, millis, 7), 1 << 24);
    const { series } = parseWriteRequest(raw)!;
    assert.equal(series.length, 20);
    series.forEach(({ tags, timestampsMillis, valueBits }, i) => {
      const labels = labelsOf(5 + i, generation).map(([name, value]) => ({ name, value }));
      assert.deepEqual(Buffer.from(tags!), Buffer.from(encodeTags(labels)));
      assert.deepEqual(timestampsMillis, [BigInt(millis)]);
      assert.deepEqual(valueBits, [0x401c_0000_0000_0000n]);
    });
  }
});

test('a short churn replaces all series at every scrape', { timeout: 120_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-churn-'));
  const server = await NodeServer.create({ folder });
  const records: ChurnRecord[] = [];
  const stop = new AbortController();
  const options: ChurnOptions = {
    seriesCount: 500,
    scrapes: 3,
    scrapeSeconds: 0.2,
    blockSeconds: 60,
    retentionSeconds: 120,
  };
  try {
    await server.start();
    await new Churn(server, options).run((record) => {
      records.push(record);
      // What expires takes minutes.
      if (records.length === 4) stop.abort();
    }, stop.signal);
  } finally {
    await server.program.stop('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
  assert.deepEqual(
    records.map(({ samples, metrics }) => [samples, metrics['node_series']]),
    [
      [500, 500],
      [1000, 1000],
      [1500, 1500],
      [1500, 1500],
    ],
  );
});

test('growth of what has settled, and series that stay, fail a churn', () => {
  const options = { retentionSeconds: 20, blockSeconds: 10, scrapes: 30 } as ChurnOptions;
  const record = (seconds: number, rssBytes: number, series: number): ChurnRecord => ({
    seconds,
    samples: 1,
    failed: 0,
    slowestMillis: 1,
    cpuSeconds: 1,
    rssBytes,
    files: 1,
    diskBytes: 1,
    metrics: { node_series: series, node_store_bytes: 1, node_index_bytes: 1 },
  });
  const times = Array.from({ length: 30 }, (_, i) => 5 * i);
  const end = record(200, 100, 0);
  const flat = times.map((seconds) => record(seconds, Math.min(100, 10 + 3 * seconds), 5));
  assert.equal(verdictOf(options, [...flat, end]).isGood, true);
  assert.equal(verdictOf(options, [...flat, record(200, 100, 3)]).isGood, false);
  const growing = times.map((seconds) => record(seconds, 100 + seconds, 5));
  assert.equal(verdictOf(options, [...growing, end]).isGood, false);
});
