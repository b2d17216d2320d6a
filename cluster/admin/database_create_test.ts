import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plainRequest } from './placement_requests.ts';
import { cluster, newAdmin, refused, signal } from './admin_testing.ts';
import { formatLevelNewest } from '#lib/format_level.ts';
import { finishedFormatsKey } from '../kv/keys.ts';
import { finishedLevelValue } from '../metadata/finished_formats.ts';

test('database create of type local gives the placement and namespace that SPEC.txt shows', async () => {
  const { admin } = newAdmin();
  const body = { type: 'local', namespaceName: 'default', retentionTime: '12h' };
  const created = await admin.databaseCreate(body, plainRequest, signal);
  const { placement, version } = created.placement;
  assert.equal(version, 0);
  assert.equal((await admin.placementGet(null, signal)).version, 1);
  assert.deepEqual(
    [placement.replicaFactor, placement.numShards, placement.isSharded, placement.isMirrored],
    [1, 64, true, false],
  );
  const { shards, ...local } = placement.instances['tsdb_local']!;
  assert.equal(shards.length, 64);
  assert.deepEqual(local, {
    id: 'tsdb_local',
    isolationGroup: 'local',
    zone: 'embedded',
    weight: 1,
    endpoint: '127.0.0.1:9000',
    shardSetId: 0,
    hostname: 'localhost',
    port: 9000,
    metadata: { debugPort: 0 },
    subclusterId: 0,
  });
  assert.deepEqual(created.namespace.registry.namespaces, {
    default: {
      bootstrapEnabled: true,
      flushEnabled: true,
      writesToCommitLog: true,
      cleanupEnabled: true,
      repairEnabled: false,
      retentionOptions: {
        retentionPeriodNanos: '43200000000000',
        blockSizeNanos: '1800000000000',
        bufferFutureNanos: '120000000000',
        bufferPastNanos: '600000000000',
        blockDataExpiry: true,
        blockDataExpiryAfterNotAccessPeriodNanos: '300000000000',
        futureRetentionPeriodNanos: '0',
      },
      snapshotEnabled: true,
      indexOptions: { enabled: true, blockSizeNanos: '1800000000000' },
      schemaOptions: null,
      coldWritesEnabled: false,
      runtimeOptions: null,
      cacheBlocksOnRetrieve: false,
      aggregationOptions: { aggregations: [{ aggregated: false, attributes: null }] },
      stagingState: { status: 'UNKNOWN' },
      extendedOptions: null,
    },
  });

  const again = { namespaceName: 'second', retentionTime: '30d' };
  const second = await admin.databaseCreate(again, plainRequest, signal);
  assert.equal(second.placement.version, 1);
  assert.deepEqual(Object.keys(second.namespace.registry.namespaces), ['default', 'second']);
  await assert.rejects(
    admin.databaseCreate(body, plainRequest, signal),
    refused('BAD_REQUEST', /default because it already exists/),
  );
  await assert.rejects(
    admin.databaseCreate({ ...again, namespaceName: 'x', type: 'cluster' }, plainRequest, signal),
    refused('BAD_REQUEST', /placement is of type local/),
  );
});

test('database create of type cluster reads strings as integers, and zone local as the service zone', async () => {
  const { admin } = newAdmin();
  const hosts = ['a', 'b', 'c'].map((id) => ({
    id,
    isolationGroup: id,
    zone: 'local',
    weight: 100,
    address: `10.0.0.${id.charCodeAt(0)}`,
    port: 9000,
  }));
  const body = { type: 'cluster', namespaceName: 'ns', replicationFactor: '3', hosts };
  const created = await admin.databaseCreate(body, { dryRun: true, force: false }, signal);
  assert.equal(created.placement.placement.numShards, 256);
  const given = await admin.databaseCreate({ ...body, numShards: '64' }, plainRequest, signal);
  assert.equal(given.placement.placement.numShards, 64);
  const { endpoint, zone } = given.placement.placement.instances['a']!;
  assert.deepEqual([endpoint, zone], ['10.0.0.97:9000', 'embedded']);
  await assert.rejects(
    admin.databaseCreate({ ...body, namespaceName: 'more' }, plainRequest, signal),
    refused('BAD_REQUEST', /hosts: the placement exists already/),
  );
  await assert.rejects(
    admin.databaseCreate({ type: 'local', namespaceName: 'x' }, plainRequest, signal),
    refused('BAD_REQUEST', /placement is of type cluster/),
  );
});

test('database create takes cold writes and bufferPast for the unaggregated namespace', async () => {
  const { admin } = newAdmin();
  const created = async (namespaceName: string, more: object) => {
    const body = { type: 'local', namespaceName, retentionTime: '48h', ...more };
    const { namespace } = await admin.databaseCreate(body, plainRequest, signal);
    const options = namespace.registry.namespaces as Record<string, any>;
    const { coldWritesEnabled, retentionOptions } = options[namespaceName];
    return [coldWritesEnabled, retentionOptions.bufferPastNanos];
  };
  assert.deepEqual(await created('a', {}), [false, '600000000000']);
  assert.deepEqual(await created('b', { coldWritesEnabled: true }), [true, '600000000000']);
  const hour = 3_600_000_000_000;
  assert.deepEqual(await created('c', { bufferPastDuration: '1h' }), [false, String(hour)]);
  assert.deepEqual(await created('d', { bufferPastNanos: String(hour) }), [false, String(hour)]);
  const both = { buffer_past_duration: '1h', cold_writes_enabled: true };
  assert.deepEqual(await created('e', both), [true, String(hour)]);
  for (const [more, text] of [
    [{ bufferPastDuration: '2h' }, /buffer past must be less than block size 2h0m0s: 2h0m0s/],
    [{ bufferPastDuration: 'x' }, /bufferPastDuration: .*"x"/],
    [{ coldWritesEnabled: 'yes' }, /coldWritesEnabled: not a boolean: "yes"/],
  ] as const) {
    await assert.rejects(created('f', more), refused('BAD_REQUEST', text));
  }
});

test('database create refuses bad requests by field', async () => {
  const { admin } = newAdmin();
  const cases: [object, RegExp][] = [
    [{ type: 'local' }, /^missing required field: namespaceName$/],
    [{ namespaceName: 'x' }, /invalid database type/],
    [{ type: 'remote', namespaceName: 'x' }, /invalid database type: "remote"/],
    [{ type: 'cluster', namespaceName: 'x' }, /missing required field: hosts/],
    [{ type: 'local', namespaceName: 'x', retention: '1h' }, /unknown field: retention/],
    [{ type: 'local', namespaceName: 'x', retentionTime: '1y' }, /retentionTime: .*"1y"/],
    [{ type: 'local', namespaceName: '../x' }, /name does not match/],
    [{ type: 'local', namespaceName: 'x', retentionTime: '10m' }, /retention period must be at/],
    [
      { type: 'local', namespaceName: 'x', aggregatedNamespace: { name: 'y', resolution: '1m' } },
      /aggregatedNamespace\.retentionTime/,
    ],
  ];
  for (const [body, text] of cases) {
    await assert.rejects(
      admin.databaseCreate(body, plainRequest, signal),
      refused('BAD_REQUEST', text),
    );
  }
});

test('database create chooses block sizes by retention, by time and by density of points', async () => {
  const { admin } = newAdmin();
  const dry = { dryRun: true, force: false };
  const blockSize = async (more: object) => {
    const body = { type: 'local', namespaceName: 'x', ...more };
    const { namespace } = await admin.databaseCreate(body, dry, signal);
    const { retentionOptions } = namespace.registry.namespaces['x'] as {
      retentionOptions: { blockSizeNanos: string };
    };
    return Number(retentionOptions.blockSizeNanos) / 60e9;
  };
  assert.equal(await blockSize({}), 60);
  const byRetention = { '12h': 30, '13h': 60, '2d': 120, '7d': 120, '8d': 720, '400d': 1440 };
  for (const [retentionTime, minutes] of Object.entries(byRetention)) {
    assert.equal(await blockSize({ retentionTime }), minutes, retentionTime);
  }
  assert.equal(await blockSize({ blockSize: { time: '45m' } }), 45);
  const dense = (n: number) => blockSize({ blockSize: { expectedSeriesDatapointsPerHour: n } });
  assert.equal(await dense(360), 120);
  assert.equal(await dense(7200), 30);
  assert.equal(await dense(400), 110);
  assert.equal(
    await blockSize({ retentionTime: '90d', blockSize: { expectedSeriesDatapointsPerHour: '1' } }),
    1440,
  );
});

test('database create makes the aggregated namespace too, which is ready when every node makes windows', async () => {
  const { admin, kv } = newAdmin();
  const body = {
    type: 'local',
    namespaceName: 'raw',
    aggregatedNamespace: { name: 'long', resolution: '5m', retentionTime: '60d' },
  };
  const { namespace } = await admin.databaseCreate(body, plainRequest, signal);
  const long = namespace.registry.namespaces['long'] as { aggregationOptions: unknown };
  assert.deepEqual(long.aggregationOptions, {
    aggregations: [
      {
        aggregated: true,
        attributes: { resolutionNanos: '300000000000', downsampleOptions: { all: true } },
      },
    ],
  });
  const prove = () => Promise.resolve();
  const ready = (name: string) => admin.namespaceReady({ name }, plainRequest, prove, signal);
  await assert.rejects(ready('long'), refused('CONFLICT', /no namespace of samples is ready yet/));
  await ready('raw');
  await assert.rejects(
    ready('long'),
    refused('CONFLICT', /long ready: it is aggregated, .*: tsdbctl upgrade finish/),
  );
  const key = finishedFormatsKey(cluster);
  const value = finishedLevelValue(formatLevelNewest);
  await kv.transact([], [{ kind: 'put', key, value }], signal);
  await ready('long');
  const { value: registry } = await admin.namespaces.get(signal);
  assert.equal(registry.get('long')!.options.stagingStatus, 'READY');
  const attributes = { resolutionDuration: '1m' };
  const aggregationOptions = { aggregations: [{ aggregated: true, attributes }] };
  const finer = { name: 'long', options: { aggregationOptions } };
  await assert.rejects(
    admin.namespaceUpdate(finer, plainRequest, signal),
    refused('BAD_REQUEST', /cannot change what namespace long aggregates: it is ready/),
  );
});
