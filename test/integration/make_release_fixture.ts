/**
 * Makes the fixture of a release: what a process of it leaves after when it is killed, and what
 * it answered before.
 *
 *     node test/integration/make_release_fixture.ts COMMIT FOLDER
 *
 * FOLDER gets `data`, the data folder of a single node; `keys.json`, the stored values by key;
 * `samples.json`, the samples by series. The node has filesets of two blocks, one in its second
 * volume, tombstones, a snapshot with its saved index, and a commit log that goes on after it.
 */
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openEtcdKv } from '#cluster/kv/etcd.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { call, NodeServer, shardsAvailable } from './process.ts';
import { checkoutOrSkip } from './release.ts';
import { remoteWriteBody } from './remote_write_body.ts';
import { samplesOf } from './release_samples.ts';

/** 2025-06-01, the begin of a block of a day. */
const beginMillis = 1_748_736_000_000;
const seriesCount = 12;
const samplesOfPart = 40;

const [commit, target] = process.argv.slice(2);
if (commit === undefined || target === undefined) {
  throw new Error('usage: node test/integration/make_release_fixture.ts COMMIT FOLDER');
}
using checkout = checkoutOrSkip(commit, 'there is nothing to make a fixture of');
if (checkout === null) process.exit(1);

const folder = mkdtempSync(join(tmpdir(), 'tsdb-fixture-'));
const server = await NodeServer.create({ folder, checkout: checkout.folder });
const expected: Record<string, [millis: number, value: string][]> = {};

async function ok(method: string, path: string, body?: unknown): Promise<void> {
  const answer = await call(method, `${server.url}/api/v1${path}`, body);
  assert.ok(answer.status < 300, `${path}: ${answer.status} ${answer.text}`);
}

/** Writes a sample every minute to every series. */
async function write(beginOfPart: number, value: (sample: number) => number): Promise<void> {
  const millis = Array.from({ length: samplesOfPart }, (_, i) => beginOfPart + i * 60_000);
  const series = Array.from({ length: seriesCount }, (_, i) => ({
    labels: { __name__: `metric_${i % 3}`, host: `host-${i}`, place: 'Zürich' },
    samples: millis.map((timestampMillis, sample) => ({
      timestampMillis,
      value: value(sample) + i / 8,
    })),
  }));
  await ok('POST', '/compat/remote/write', remoteWriteBody(series));
  for (const { labels, samples } of series) {
    const known = (expected[labels.host] ??= []);
    for (const { timestampMillis, value: number } of samples) {
      const before = known.find(([at]) => at === timestampMillis);
      if (before === undefined) known.push([timestampMillis, String(number)]);
      else before[1] = String(number);
    }
  }
}

async function flush(): Promise<void> {
  const answer = await call('POST', `http://127.0.0.1:${server.ports.httpNode}/flush`, {});
  assert.equal(answer.status, 200, answer.text);
}

const namespace = (name: string, retention: string, blockSize: string, more: object) => ({
  name,
  options: {
    bootstrapEnabled: true,
    flushEnabled: true,
    writesToCommitLog: true,
    cleanupEnabled: true,
    snapshotEnabled: true,
    coldWritesEnabled: true,
    retentionOptions: {
      retentionPeriodDuration: retention,
      blockSizeDuration: blockSize,
      bufferPastDuration: '10m',
      bufferFutureDuration: '10m',
    },
    indexOptions: { enabled: true, blockSizeDuration: blockSize },
    ...more,
  },
});

try {
  await server.start();
  await ok('POST', '/placement/init', {
    num_shards: 3,
    replication_factor: 1,
    instances: [
      {
        id: 'tsdb_local',
        isolation_group: 'local',
        zone: 'embedded',
        weight: 1,
        endpoint: '127.0.0.1:9000',
        hostname: 'localhost',
        port: 9000,
      },
    ],
  });
  // A century, so that the samples do not expire before the fixture does.
  await ok('POST', '/namespace', namespace('default', '876000h', '24h', {}));
  await ok(
    'POST',
    '/namespace',
    namespace('aggregated', '48h', '2h', {
      aggregationOptions: {
        aggregations: [
          {
            aggregated: true,
            attributes: { resolutionDuration: '1m', downsampleOptions: { all: true } },
          },
        ],
      },
      runtimeOptions: { writeIndexingPerCPUConcurrency: 0.5 },
      extendedOptions: { type: 'note', options: { of: 'the fixture' } },
    }),
  );
  await shardsAvailable(server.url);
  await ok('POST', '/namespace/ready', { name: 'default' });
  for (const [key, value] of [
    ['tsdb.node.cluster-new-series-insert-limit', 100_000],
    ['tsdb.node.max-outstanding-write-requests', { value: 1000 }],
    ['tsdb.query.limits', { maxRecentlyQueriedSeriesBlocks: { limit: 100_000 } }],
  ] as const) {
    await ok('POST', '/kvstore', { key, value, commit: true });
  }

  await write(beginMillis, (sample) => sample);
  await flush();
  await write(beginMillis + 20 * 60_000, (sample) => sample * 1.5);
  await flush();
  const nowMillis = Math.floor(realEnv.clock.nowMillis() / 1000) * 1000;
  await write(nowMillis - (samplesOfPart + 5) * 60_000, (sample) => 1 / (sample + 1));
  const deleted = new URLSearchParams({ 'match[]': '{host="host-3"}' });
  await ok('POST', `/admin/tsdb/delete_series?${deleted.toString()}`);
  delete expected['host-3'];
  const [from, to] = [beginMillis + 600_000, beginMillis + 1_800_000];
  const cut = new URLSearchParams({
    'match[]': '{host="host-4"}',
    start: String(from / 1000),
    end: String(to / 1000),
  });
  await ok('POST', `/admin/tsdb/delete_series?${cut.toString()}`);
  expected['host-4'] = expected['host-4']!.filter(([at]) => at < from || at > to);
  await flush();
  await write(beginMillis + 86_400_000, (sample) => -sample);
  await write(beginMillis + 40 * 60_000, (sample) => sample * 2);

  for (const samples of Object.values(expected)) samples.sort(([a], [b]) => a - b);
  assert.deepEqual(await samplesOf(server.url), expected);
  const kv = openEtcdKv({
    endpoints: [`127.0.0.1:${server.ports.kv}`],
    env: realEnv,
    log: silentLog,
  });
  const { items } = await kv.list('', new AbortController().signal);
  await kv[Symbol.asyncDispose]();
  const text = new TextDecoder();
  const keys = Object.fromEntries(
    items.map(({ key, value }) => [key, JSON.parse(text.decode(value)) as unknown]),
  );
  await server.program.stop('SIGKILL');

  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  cpSync(join(folder, 'data'), join(target, 'data'), { recursive: true });
  rmSync(join(target, 'data', 'tsdb.pid'));
  writeFileSync(join(target, 'keys.json'), `${JSON.stringify(keys, null, 1)}\n`);
  writeFileSync(join(target, 'samples.json'), `${JSON.stringify(expected)}\n`);
} finally {
  await server.program.stop('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
}
