/**
 * What is stored is read by the version before and after: today's process on the data folder of the
 * previous release, today's readers on its stored values, and one node of each release in one
 * cluster.
 */
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { MemoryKvStore } from '#cluster/kv/memory.ts';
import { DeletionLog } from '#cluster/metadata/deletion_log.ts';
import {
  noRuntimeLimits,
  type RuntimeLimitKey,
  runtimeLimitKeys,
  runtimeLimitPath,
  withRuntimeLimit,
} from '#cluster/metadata/runtime_limits.ts';
import { NamespaceStore } from '#cluster/namespaces/store.ts';
import { PlacementStore } from '#cluster/placement/store.ts';
import { realEnv } from '#lib/env/real.ts';
import { formatLevelNewest } from '#lib/format_level.ts';
import { startEmbedded } from '../conformance/kv_suite_servers.ts';
import { call, eventually, namespaceReady, NodeServer, shardsAvailable } from './process.ts';
import { checkoutOrSkip, previousRelease, previousReleaseFixture } from './release.ts';
import { samplesOf } from './release_samples.ts';
import { remoteWriteBody } from './remote_write_body.ts';

const { signal } = new AbortController();

function fixture(name: string): unknown {
  return JSON.parse(readFileSync(join(previousReleaseFixture, name), 'utf8'));
}

test("today's process serves every sample of the previous release's data folder", async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-previous-'));
  cpSync(join(previousReleaseFixture, 'data'), join(folder, 'data'), { recursive: true });
  const server = await NodeServer.create({ folder });
  try {
    await server.start();
    const samples = await eventually('an answer', () => samplesOf(server.url));
    assert.deepEqual(samples, fixture('samples.json'));
    const flushed = await call('POST', `http://127.0.0.1:${server.ports.httpNode}/flush`, {});
    assert.equal(flushed.status, 200, flushed.text);
    assert.deepEqual(await samplesOf(server.url), samples);
    // Of its own accord it writes nothing that the release before could not read.
    assert.match(server.program.log(), /tsdbctl upgrade finish/);
    const { formatLevel } = await ok(server, 'GET', '/services/tsdb/upgrade');
    assert.deepEqual(formatLevel, { newest: formatLevelNewest, finished: 1 });
    await ok(server, 'POST', '/services/tsdb/upgrade/finish');
    await eventually('a folder that knows of the end of the upgrade', async () =>
      JSON.parse(readFileSync(join(folder, 'data/formats.json'), 'utf8')),
    );
    await server.program.stop('SIGKILL');
    await server.start();
    assert.deepEqual(await eventually('an answer', () => samplesOf(server.url)), samples);
    assert.doesNotMatch(server.program.log(), /damaged|cannot read/);
  } finally {
    await server.program.stop('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
});

test("today's readers take every stored value of the previous release", async () => {
  const keys = fixture('keys.json') as Record<string, unknown>;
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  for (const [key, json] of Object.entries(keys)) {
    const value = new TextEncoder().encode(JSON.stringify(json));
    await kv.transact([], [{ kind: 'put', key, value }], signal);
  }
  const cluster = { environment: 'default_env', zone: 'embedded' };
  const registry = await new NamespaceStore(kv, cluster).get(signal);
  assert.deepEqual([...registry.value.keys()], ['aggregated', 'default']);
  assert.deepEqual(registry.unread, []);
  const placement = await new PlacementStore(kv, cluster, realEnv.random).require(signal);
  assert.equal(placement.value.numShards, 3);
  assert.ok(placement.value.instances[0]!.shards.every(({ state }) => state === 'AVAILABLE'));
  assert.deepEqual(placement.unread, []);
  const { deletions, damaged } = await new DeletionLog(kv, cluster).list(signal);
  assert.equal(deletions.length, 2);
  assert.deepEqual(damaged, []);
  const limits = runtimeLimitKeys.reduce(
    (known, key: RuntimeLimitKey) =>
      withRuntimeLimit(known, key, keys[runtimeLimitPath(cluster, key)] ?? null, 'stored'),
    noRuntimeLimits,
  );
  assert.equal(limits.clusterNewSeriesPerSecondMax, 100_000);
  assert.equal(limits.outstandingWritesMax, 1000);
  assert.equal(limits.query!.seriesBlocks.limit, 100_000);
});

const checkout = checkoutOrSkip(
  previousRelease.commit,
  'no node of the previous release runs beside one of today',
);

if (checkout !== null) {
  test('a node of the previous release and one of today are one cluster', async () => {
    using previous = checkout;
    const folder = mkdtempSync(join(tmpdir(), 'tsdb-two-releases-'));
    await using store = await startEmbedded(join(folder, 'kv'));
    const nodeOf = (hostId: string, sources: object) =>
      NodeServer.create({
        folder: join(folder, hostId),
        etcdEndpoint: store.endpoint,
        hostId,
        ...sources,
      });
    const old = await nodeOf('old', { checkout: previous.folder });
    const today = await nodeOf('today', {});
    try {
      await Promise.all([old.start(), today.start()]);
      await bothWork(old, today);
      await cannotBeFinished(today);
      for (const { program } of [old, today]) assert.doesNotMatch(program.log(), /damaged/);
    } finally {
      await Promise.all([old.program.stop('SIGKILL'), today.program.stop('SIGKILL')]);
      rmSync(folder, { recursive: true, force: true });
    }
  });
}

/** Formats of today are not written while a process of the previous release could not read them. */
async function cannotBeFinished(today: NodeServer): Promise<void> {
  const { formatLevel, instances } = await ok(today, 'GET', '/services/tsdb/upgrade');
  assert.deepEqual(formatLevel, { newest: formatLevelNewest, finished: 1 });
  assert.deepEqual(instances.old, { reads: 1, writes: 1, readersRead: 1 });
  // The coordinator of the previous release has read from it.
  assert.deepEqual(instances.today, { reads: formatLevelNewest, writes: 1, readersRead: 1 });
  const path = `${today.url}/api/v1/services/tsdb/upgrade/finish`;
  const refused = await call('POST', path);
  assert.equal(refused.status, 409);
  assert.match(refused.text, /old is of an earlier release/);
  assert.match(refused.text, /today was read .* coordinator or client of an earlier release/);
}

async function ok(server: NodeServer, method: string, path: string, body?: unknown) {
  const answer = await call(method, `${server.url}/api/v1${path}`, body);
  assert.ok(answer.status < 300, `${server.program.name} ${path}: ${answer.text}`);
  return answer.json;
}

async function bothWork(old: NodeServer, today: NodeServer): Promise<void> {
  const instance = ({ program, ports }: NodeServer) => ({
    id: program.name,
    isolation_group: program.name,
    zone: 'embedded',
    weight: 1,
    endpoint: `127.0.0.1:${ports.grpc}`,
    hostname: '127.0.0.1',
    port: ports.grpc,
  });
  await ok(old, 'POST', '/placement/init', {
    num_shards: 4,
    replication_factor: 2,
    instances: [old, today].map(instance),
  });
  await shardsAvailable(today.url);
  for (const [creator, other] of [
    [old, today],
    [today, old],
  ] as const) {
    const namespaceName = `of_${creator.program.name}`;
    await ok(creator, 'POST', '/database/create', { namespaceName, retentionTime: '24h' });
    await namespaceReady(other.url, namespaceName);
    const retentionOptions = { retentionPeriodDuration: '48h' };
    await ok(other, 'PUT', '/namespace', { name: namespaceName, options: { retentionOptions } });
    const { registry } = await ok(creator, 'GET', '/namespace?debug=1');
    const { stagingState, retentionOptions: changed } = registry.namespaces[namespaceName];
    assert.equal(stagingState.status, 'READY');
    assert.equal(changed.retentionPeriodDuration, '48h0m0s');
  }

  const begin = Date.now() - 60_000;
  const hostsOf = async (reader: NodeServer) => Object.keys(await samplesOf(reader.url)).sort();
  const written: string[] = [];
  for (const [writer, reader] of [
    [old, today],
    [today, old],
  ] as const) {
    // Another number of series, so that each of the four shards has some.
    const hosts = Array.from({ length: 20 }, (_, i) => `${writer.program.name}-${i}`);
    const body = remoteWriteBody(
      hosts.map((host, i) => ({
        labels: { __name__: 'up', host },
        samples: [{ timestampMillis: begin, value: i }],
      })),
    );
    await eventually('a write', async () => {
      const answer = await call('POST', `${writer.url}/api/v1/compat/remote/write`, body);
      if (answer.status !== 200) throw new Error(answer.text);
      return true;
    });
    written.push(...hosts);
    assert.deepEqual(await hostsOf(reader), written.toSorted());
    assert.deepEqual(await hostsOf(writer), written.toSorted());
  }
  for (const [deleter, reader] of [
    [old, today],
    [today, old],
  ] as const) {
    const host = `${reader.program.name}-1`;
    const matched = new URLSearchParams({ 'match[]': `{host="${host}"}` });
    await ok(deleter, 'POST', `/admin/tsdb/delete_series?${matched.toString()}`);
    written.splice(written.indexOf(host), 1);
    assert.deepEqual(await hostsOf(reader), written.toSorted());
    assert.deepEqual(await hostsOf(deleter), written.toSorted());
  }
}
