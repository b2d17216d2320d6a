import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { registryOf } from '#cluster/namespaces.ts';
import { realEnv } from '#lib/env/real.ts';
import {
  closeDatabases,
  namespaceOf,
  never,
  openDatabase,
  writeRows,
} from '#node/storage/database_testing.ts';
import { flushNode, readFolder, verifyFolder } from './data.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-ctl-'));
after(async () => {
  await closeDatabases();
  rmSync(folder, { recursive: true, force: true });
});

const blockNanos = 7_200_000_000_000n;
const end = (realEnv.clock.nowNanos() / blockNanos) * blockNanos - blockNanos / 2n;
const rowsOf = (value: number) =>
  Array.from({ length: 60 }, (_, i) => ({
    series: { __name__: 'cpu', host: `h${i % 6}` },
    nanos: end - BigInt(i) * 1_000_000_000n,
    value,
  }));

test('a data folder is verified and read offline, and damage is found by name', async () => {
  const registry = registryOf([namespaceOf('metrics', { coldWritesEnabled: true })]);
  const { database } = await openDatabase(folder, { registry });
  await writeRows(database, rowsOf(1.5));
  await database.flush(null, never);
  await writeRows(database, rowsOf(2));
  await database.snapshot(1, never);
  await writeRows(database, rowsOf(3));
  await closeDatabases();

  const lines: string[] = [];
  assert.equal(await verifyFolder(realEnv, folder, (line) => lines.push(line)), 0);
  const text = lines.join('\n');
  assert.match(text, /^namespace metrics: \d filesets, 6 entries of series, 60 rows$/m);
  assert.match(text, /^ {2}data chunk payloads +\d+$/m);
  assert.match(text, /snapshot-\d+\.db: \d+ bytes, 6 series, 60 rows$/m);
  assert.match(text, /commitlog-\d+\.db: \d+ bytes, 6 series, 60 rows$/m);
  assert.equal(lines.at(-1), 'ok');

  const read: string[] = [];
  const options = { namespace: 'metrics', match: '"h3"', rows: true, limit: 10 };
  await readFolder(realEnv, folder, options, (line) => read.push(line));
  assert.match(read[0]!, /^metrics \d \d+ \{__name__="cpu",host="h3"\} rows=10 first=\d+ last=\d+/);
  assert.equal(read.length, 11);
  assert.match(read[1]!, /^ {2}\d+ 1\.5$/);

  const files = readdirSync(join(folder, 'data'), { recursive: true }).map(String);
  const data = join(folder, 'data', files.find((name) => name.endsWith('-data.db'))!);
  const bytes = readFileSync(data);
  bytes[20]! ^= 1;
  writeFileSync(data, bytes);
  const again: string[] = [];
  assert.equal(await verifyFolder(realEnv, folder, (line) => again.push(line)), 1);
  assert.ok(again.some((line) => line.startsWith('damaged:') && line.includes(data)));
});

test('a flush names the node that refuses it, with its words', async () => {
  const asked: string[] = [];
  const post = (status: number, text: string) => async (url: string) => {
    asked.push(url);
    return { status, text };
  };
  assert.equal(await flushNode(post(200, '{"blocks":1}\n'), 'http://a:9002', null), '{"blocks":1}');
  await assert.rejects(flushNode(post(404, 'no such namespace'), 'http://a:9002', 'x y'), {
    message: 'cannot flush: a:9002 answers 404: no such namespace',
  });
  assert.deepEqual(asked, ['http://a:9002/flush', 'http://a:9002/flush?namespace=x+y']);
});
