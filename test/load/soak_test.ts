import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { decodeSnappy } from '#engine/write_decoder/snappy.ts';
import { NodeServer } from '../integration/process.ts';
import { labelsOf, seriesOfSlice, SliceBody, valueOf } from './soak_data.ts';
import { drawSoak, verdictOf } from './soak_report.ts';
import { Soak, type SoakOptions, type SoakRecord } from './soak_run.ts';

test('a body of the soak has the labels, times and values of its scrape', () => {
  const seriesCount = seriesOfSlice + 500;
  const slice = new SliceBody(1, seriesCount, 3);
  const millis = 1_790_000_000_123;
  for (const scrape of [0, 70_000]) {
    const raw = Buffer.from(decodeSnappy(slice.at(scrape, millis), 1 << 24));
    const varint = (at: number): [value: number, end: number] => {
      let value = 0;
      for (let i = 0; ; i += 1) {
        value += (raw[at + i]! & 127) * 2 ** (7 * i);
        if (raw[at + i]! < 128) return [value, at + i + 1];
      }
    };
    let at = 0;
    for (let series = seriesOfSlice; series < seriesCount; series += 1) {
      const [length, begin] = varint(at + 1);
      at = begin + length;
      const one = raw.subarray(begin, at);
      for (const [name, value] of labelsOf(series, 3)) {
        assert.ok(one.includes(`\n${String.fromCharCode(name.length)}${name}`), name);
        assert.ok(one.includes(value), value);
      }
      const sample = at - 16;
      assert.equal(raw.readDoubleLE(sample + 1), valueOf(series, scrape));
      assert.deepEqual(varint(sample + 10), [millis, at]);
    }
    assert.equal(at, raw.length);
  }
});

test('a short soak checks answers and draws what it saw', { timeout: 120_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-soak-'));
  const server = await NodeServer.create({ folder });
  const options: SoakOptions = {
    seconds: 5,
    seriesCount: 1000,
    samplesPerSecond: 50_000,
    blockSeconds: 60,
    retentionSeconds: 180,
    recordSeconds: 1,
    churnSeconds: 2,
    queriesPerSecond: 10,
  };
  const records: SoakRecord[] = [];
  const told: string[] = [];
  try {
    await server.start();
    await new Soak(server, options, (line) => told.push(line)).run((record) => {
      records.push(record);
    }, new AbortController().signal);
  } finally {
    await server.program.stop('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
  assert.deepEqual(told, []);
  assert.equal(records.length, 5);
  const verdict = verdictOf(options, records);
  assert.ok(verdict.lines.includes('wrong answers: 0'), verdict.lines.join('\n'));
  assert.ok(records.some(({ answersChecked }) => answersChecked > 0));
  assert.ok(records.at(-1)!.node['samples']! > 0);
  assert.ok(records.every(({ disk, server: { rssBytes } }) => disk.bytes > 0 && rssBytes > 0));
  assert.match(drawSoak(options, records), /^<svg [\s\S]*resident[\s\S]*<\/svg>\n$/);
});

test('growth after the warm-up, a lost write and a wrong answer fail a soak', () => {
  const options = { retentionSeconds: 60, blockSeconds: 40, recordSeconds: 10 } as SoakOptions;
  const record = (seconds: number, rssBytes: number, answersWrong = 0): SoakRecord => {
    const latency = { count: 1, p50Millis: 1, p99Millis: 2, maxMillis: 3 };
    return {
      seconds,
      samplesPerSecond: 1,
      writesFailed: 0,
      writesSkipped: 0,
      write: latency,
      query: latency,
      queriesFailed: 0,
      queriesSkipped: 0,
      answersChecked: 1,
      answersWrong,
      server: { rssBytes, heapBytes: 1, externalBytes: 1, cpuPerSecond: 1, loopLagMaxMillis: 1 },
      senderCpuPerSecond: 1,
      disk: {
        files: 1,
        bytes: 1,
        dataBytes: 1,
        commitlogBytes: 0,
        snapshotBytes: 0,
        indexBytes: 0,
      },
      node: { series: 5 },
      slowestQuery: {},
    };
  };
  const times = Array.from({ length: 40 }, (_, i) => 10 * i);
  const flat = times.map((seconds) => record(seconds, 300));
  assert.equal(verdictOf(options, flat).isGood, true);
  // Growth while the first blocks fill is none.
  assert.equal(
    verdictOf(
      options,
      times.map((s) => record(s, Math.min(s, 100))),
    ).isGood,
    true,
  );
  assert.equal(
    verdictOf(
      options,
      times.map((s) => record(s, 300 + s)),
    ).isGood,
    false,
  );
  assert.equal(verdictOf(options, [...flat, record(400, 300, 1)]).isGood, false);
});
