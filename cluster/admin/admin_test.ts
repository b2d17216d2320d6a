import { bootstrappedFrom } from '../placement/placement_testing.ts';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { plainRequest } from './placement_requests.ts';
import { instance, newAdmin, refused, signal } from './admin_testing.ts';

test('placement init answers in the exact shape, with version 0, and get shows 1', async () => {
  const { admin } = newAdmin();
  const body = { num_shards: 1, replication_factor: 1, instances: [instance('h1', 'r1')] };
  const expected = (version: number) =>
    `{"placement":{"instances":{"h1":{"id":"h1","isolationGroup":"r1","zone":"embedded","weight":1,"endpoint":"h1:9000","shards":[{"id":0,"state":"INITIALIZING","sourceId":"","cutoverNanos":"0","cutoffNanos":"0","redirectToShardId":null}],"shardSetId":0,"hostname":"h1","port":9000,"metadata":{"debugPort":0},"subclusterId":0}},"replicaFactor":1,"numShards":1,"isSharded":true,"cutoverTime":"0","isMirrored":false,"maxShardSetId":0,"isSubclustered":false,"instancesPerSubcluster":0},"version":${version}}`;
  assert.equal(JSON.stringify(await admin.placementInit(body, plainRequest, signal)), expected(0));
  assert.equal(JSON.stringify(await admin.placementGet(null, signal)), expected(1));
  await assert.rejects(
    admin.placementInit(body, plainRequest, signal),
    refused('CONFLICT', /^key already has a value$/),
  );
});

test('placement get answers 404 without one, and history by version', async () => {
  const { admin } = newAdmin();
  await assert.rejects(
    admin.placementGet(null, signal),
    refused('NOT_FOUND', /^placement does not exist$/),
  );
  await admin.databaseCreate({ type: 'local', namespaceName: 'ns' }, plainRequest, signal);
  const shards = new Map(Array.from({ length: 64 }, (_, id) => [id, '']));
  const marked = await admin.markAvailable('tsdb_local', bootstrappedFrom(shards), signal);
  assert.equal(marked.version, 2);
  const states = (answer: Awaited<ReturnType<typeof admin.placementGet>>) =>
    new Set(answer.placement.instances['tsdb_local']!.shards.map(({ state }) => state));
  assert.deepEqual([...states(await admin.placementGet(1, signal))], ['INITIALIZING']);
  assert.deepEqual([...states(await admin.placementGet(2, signal))], ['AVAILABLE']);
  await assert.rejects(admin.placementGet(3, signal), refused('NOT_FOUND', /version 3/));
  assert.equal(
    (await admin.markAvailable('tsdb_local', bootstrappedFrom(shards), signal)).version,
    2,
  );
});

test('an instance of another zone is refused by name, one without a zone is in the service zone', async () => {
  const { admin } = newAdmin();
  const body = (zone: string) => ({
    numShards: '4',
    replicationFactor: 1,
    instances: [instance('h1', 'r1', { zone })],
  });
  await assert.rejects(
    admin.placementInit(body('other'), plainRequest, signal),
    refused('BAD_REQUEST', /instances\[0\]\.zone.*embedded.*other/),
  );
  const { placement } = await admin.placementInit(body(''), plainRequest, signal);
  assert.equal(placement.instances['h1']!.zone, 'embedded');
});

test('three nodes take a placement from version 1 to 4, and a fourth moves shards to itself', async () => {
  const { admin } = newAdmin();
  const hosts = ['a', 'b', 'c'].map((id) => instance(id, id));
  await admin.placementInit(
    { num_shards: 8, replication_factor: 3, instances: hosts },
    plainRequest,
    signal,
  );
  await assert.rejects(
    admin.placementAdd({ instances: [instance('d', 'a')] }, plainRequest, signal),
    refused('BAD_REQUEST', /^instances do not have all shards available: \[a, b, c\]$/),
  );
  const all = new Map(Array.from({ length: 8 }, (_, id) => [id, '']));
  await Promise.all(
    ['a', 'b', 'c'].map((id) => admin.markAvailable(id, bootstrappedFrom(all), signal)),
  );
  assert.equal((await admin.placementGet(null, signal)).version, 4);

  const dry = { dryRun: true, force: false };
  const planned = await admin.placementAdd({ instances: [instance('d', 'a')] }, dry, signal);
  assert.equal(planned.version, 5);
  assert.equal((await admin.placementGet(null, signal)).version, 4);

  const added = await admin.placementAdd({ instances: [instance('d', 'a')] }, plainRequest, signal);
  assert.deepEqual(added, planned);
  assert.deepEqual(await admin.placementGet(null, signal), added);
  const ofD = added.placement.instances['d']!.shards;
  assert.equal(ofD.length, 4);
  const ready = new Map(ofD.map(({ id, sourceId }) => [id, sourceId]));
  const settled = await admin.markAvailable('d', bootstrappedFrom(ready), signal);
  assert.equal(settled.placement.instances.find(({ id }) => id === 'a')!.shards.length, 4);

  const removed = await admin.placementRemoveInstance('d', plainRequest, signal);
  assert.ok(removed.placement.instances['d']!.shards.every(({ state }) => state === 'LEAVING'));
  await assert.rejects(
    admin.placementRemoveInstance('x', plainRequest, signal),
    refused('NOT_FOUND', /^instance not found: x$/),
  );
  const replaced = await admin.placementReplace(
    { leavingInstanceIDs: ['b'], candidates: [instance('e', 'b')] },
    { dryRun: false, force: true },
    signal,
  );
  assert.equal(replaced.placement.instances['e']!.shards.length, 8);
  assert.deepEqual(await admin.placementDelete(plainRequest, signal), { deleted: true });
  await assert.rejects(admin.placementDelete(plainRequest, signal), refused('NOT_FOUND', /exist/));
  await assert.rejects(admin.placementGet(4, signal), refused('NOT_FOUND', /version 4/));
});

test('placement set is a dry run until confirmed, and holds to the current version', async () => {
  const { admin } = newAdmin();
  await admin.databaseCreate({ type: 'local', namespaceName: 'ns' }, plainRequest, signal);
  const { placement } = await admin.placementGet(null, signal);
  const tried = await admin.placementSet({ placement, version: 1 }, plainRequest, signal);
  assert.deepEqual([tried.version, tried.dryRun], [2, true]);
  const set = (body: object) => admin.placementSet(body, plainRequest, signal);
  await assert.rejects(
    set({ placement, version: 7, confirm: true }),
    refused('BAD_REQUEST', /version is not the current one, 1: 7/),
  );
  const broken = { ...placement, replicaFactor: 2 };
  await assert.rejects(
    set({ placement: broken, version: 1, confirm: true }),
    refused('BAD_REQUEST', /shard 0 has 1 replicas instead of 2/),
  );
  const done = await set({ placement, version: 1, confirm: true });
  assert.deepEqual([done.version, done.dryRun], [2, false]);
});

test('an aggregated namespace whose windows nobody makes is not ready', async () => {
  const { admin } = newAdmin();
  const attributes = { resolutionDuration: '2m' };
  const aggregations = [{ aggregated: false }, { aggregated: true, attributes }];
  const both = { ...fullOptions, aggregationOptions: { aggregations } };
  await admin.namespaceAdd({ name: 'both', options: both }, plainRequest, signal);
  const ready = admin.namespaceReady({ name: 'both' }, plainRequest, async () => {}, signal);
  await assert.rejects(ready, refused('BAD_REQUEST', /it is aggregated and takes samples/));
  const options = {
    ...fullOptions,
    aggregationOptions: {
      aggregations: [{ aggregated: true, attributes: { resolutionDuration: '7m' } }],
    },
  };
  await assert.rejects(
    admin.namespaceAdd({ name: 'odd', options }, plainRequest, signal),
    refused(
      'BAD_REQUEST',
      /resolution must divide the block size 2h0m0s, or be a multiple of it: 7m0s/,
    ),
  );
});

const fullOptions = {
  bootstrapEnabled: true,
  flushEnabled: true,
  writesToCommitLog: true,
  cleanupEnabled: true,
  snapshotEnabled: true,
  repairEnabled: false,
  retentionOptions: {
    retentionPeriodDuration: '2d',
    blockSizeDuration: '2h',
    bufferFutureDuration: '10m',
    bufferPastDuration: '10m',
    blockDataExpiry: true,
    blockDataExpiryAfterNotAccessedPeriodDuration: '5m',
  },
  indexOptions: { enabled: true, blockSizeDuration: '2h' },
  aggregationOptions: { aggregations: [{ aggregated: false }] },
};

test('a namespace that is made again has another number', async () => {
  const { admin } = newAdmin();
  const body = { name: 'ns', options: fullOptions };
  const numberOf = async (): Promise<number> =>
    (await admin.namespaceGet(false, signal, true)).numbers!['ns']!;
  await admin.namespaceAdd(body, plainRequest, signal);
  const first = await numberOf();
  assert.equal(await numberOf(), first);
  await admin.namespaceDelete('ns', plainRequest, signal);
  await admin.namespaceAdd(body, plainRequest, signal);
  assert.ok((await numberOf()) > first);
});

test('namespace add answers with the registry in the exact shape, and debug with durations', async () => {
  const { admin } = newAdmin();
  assert.deepEqual(await admin.namespaceGet(false, signal), { registry: { namespaces: {} } });
  const added = await admin.namespaceAdd(
    { name: 'ns', options: fullOptions },
    plainRequest,
    signal,
  );
  assert.equal(
    JSON.stringify(added),
    '{"registry":{"namespaces":{"ns":{"bootstrapEnabled":true,"flushEnabled":true,"writesToCommitLog":true,"cleanupEnabled":true,"repairEnabled":false,"retentionOptions":{"retentionPeriodNanos":"172800000000000","blockSizeNanos":"7200000000000","bufferFutureNanos":"600000000000","bufferPastNanos":"600000000000","blockDataExpiry":true,"blockDataExpiryAfterNotAccessPeriodNanos":"300000000000","futureRetentionPeriodNanos":"0"},"snapshotEnabled":true,"indexOptions":{"enabled":true,"blockSizeNanos":"7200000000000"},"schemaOptions":null,"coldWritesEnabled":false,"runtimeOptions":null,"cacheBlocksOnRetrieve":false,"aggregationOptions":{"aggregations":[{"aggregated":false,"attributes":null}]},"stagingState":{"status":"UNKNOWN"},"extendedOptions":null}}}}',
  );
  assert.deepEqual(await admin.namespaceGet(false, signal), added);
  const debug = await admin.namespaceGet(true, signal);
  const { retentionOptions } = debug.registry.namespaces['ns'] as {
    retentionOptions: Record<string, unknown>;
  };
  assert.equal(retentionOptions['retentionPeriodDuration'], '48h0m0s');
  assert.equal(retentionOptions['futureRetentionPeriodDuration'], '0s');
  assert.equal(retentionOptions['retentionPeriodNanos'], undefined);
  await assert.rejects(
    admin.namespaceAdd({ name: 'ns', options: fullOptions }, plainRequest, signal),
    refused('CONFLICT', /^namespace with the same ID already exists$/),
  );
});

test('namespace add takes snake_case, nanoseconds as text and numbers, and both spellings of expiry', async () => {
  const { admin } = newAdmin();
  const options = {
    bootstrap_enabled: true,
    retention_options: {
      retention_period_nanos: '7200000000000',
      block_size_nanos: 3_600_000_000_000,
      block_data_expiry_after_not_access_period_duration: '1m',
    },
    runtimeOptions: null,
    extendedOptions: null,
  };
  const added = await admin.namespaceAdd({ name: 'n', options }, plainRequest, signal);
  const namespace = added.registry.namespaces['n'] as Record<string, Record<string, unknown>>;
  assert.equal(namespace['bootstrapEnabled'], true);
  assert.equal(namespace['flushEnabled'], false);
  assert.equal(
    namespace['retentionOptions']!['blockDataExpiryAfterNotAccessPeriodNanos'],
    '60000000000',
  );
  assert.deepEqual(
    namespace['indexOptions'],
    { enabled: true, blockSizeNanos: '3600000000000' },
    'every namespace has an index',
  );
  assert.deepEqual((await admin.namespaceGet(false, signal)).registry, added.registry);
});

test('options that would change nothing are refused', async () => {
  const { admin } = newAdmin();
  const { retentionOptions } = fullOptions;
  for (const [more, message] of [
    [
      { indexOptions: { enabled: false } },
      /indexOptions\.enabled: .* index is not supported: false/,
    ],
    [
      { retentionOptions: { ...retentionOptions, futureRetentionPeriodDuration: '1h' } },
      /futureRetentionPeriod: not supported: .*bufferFuture: "3600000000000"/,
    ],
    [
      { runtimeOptions: { writeIndexingPerCPUConcurrency: 0.75 } },
      /runtimeOptions: not supported: .*0\.75/,
    ],
    [{ extendedOptions: { type: 'x', options: {} } }, /extendedOptions: not supported: .*"x"/],
  ] as const) {
    const options = { ...fullOptions, ...more };
    await assert.rejects(
      admin.namespaceAdd({ name: 'n', options }, plainRequest, signal),
      refused('BAD_REQUEST', message),
    );
  }
  await admin.namespaceAdd({ name: 'n', options: fullOptions }, plainRequest, signal);
  for (const options of [
    { runtimeOptions: { flushIndexingPerCPUConcurrency: 1 } },
    { extendedOptions: { type: 'x' } },
  ]) {
    await assert.rejects(
      admin.namespaceUpdate({ name: 'n', options }, plainRequest, signal),
      refused('BAD_REQUEST', /not supported/),
    );
  }
});

test('namespace add refuses what breaks a rule, naming field and value', async () => {
  const { admin } = newAdmin();
  const retention = (more: object) => ({
    ...fullOptions,
    retentionOptions: { ...fullOptions.retentionOptions, ...more },
  });
  const cases: [object, RegExp][] = [
    [{ options: fullOptions }, /missing required field: name/],
    [{ name: 'x', options: {} }, /^bad namespace metadata: retention options must be set$/],
    [
      { name: 'x', options: { ...fullOptions, compress: true } },
      /unknown field: options\.compress/,
    ],
    [{ name: 'x', options: retention({ bufferPastDuration: '2h' }) }, /buffer past .*2h0m0s/],
    [{ name: 'x', options: retention({ bufferFutureDuration: '3h' }) }, /buffer future/],
    [{ name: 'x', options: retention({ blockSizeDuration: '0s' }) }, /block size must be positive/],
    [{ name: 'x', options: retention({ retentionPeriodDuration: '1h' }) }, /retention period/],
    [{ name: 'x', options: retention({ blockSizeDuration: '1h' }) }, /index block size/],
    [
      { name: 'x', options: retention({ blockSizeNanos: '1' }) },
      /options\.retentionOptions\.blockSizeDuration: the duration is given twice/,
    ],
    [
      { name: 'x', options: retention({ bufferPastDuration: 'soon' }) },
      /options\.retentionOptions\.bufferPastDuration: .*"soon"/,
    ],
    [
      { name: 'x', options: { ...fullOptions, flushEnabled: 'yes' } },
      /flushEnabled: not a boolean: "yes"/,
    ],
    [
      {
        name: 'x',
        options: { ...fullOptions, aggregationOptions: { aggregations: [{ aggregated: true }] } },
      },
      /positive resolution/,
    ],
  ];
  for (const [body, text] of cases) {
    await assert.rejects(
      admin.namespaceAdd(body, plainRequest, signal),
      refused('BAD_REQUEST', text),
    );
  }
});

test('a ready namespace is not aggregated by an update, nor one that is made ready meanwhile', async () => {
  const { admin } = newAdmin();
  const attributes = { resolutionDuration: '1m' };
  const aggregationOptions = { aggregations: [{ aggregated: true, attributes }] };
  const aggregate = (name: string) =>
    admin.namespaceUpdate({ name, options: { aggregationOptions } }, plainRequest, signal);
  for (const name of ['a', 'b']) {
    await admin.namespaceAdd({ name, options: fullOptions }, plainRequest, signal);
  }
  await admin.namespaceReady({ name: 'a' }, plainRequest, async () => {}, signal);
  await assert.rejects(
    aggregate('a'),
    refused(
      'BAD_REQUEST',
      /aggregationOptions: cannot change what namespace a aggregates: it is ready/,
    ),
  );
  const meanwhile = async () => void (await aggregate('b'));
  await assert.rejects(
    admin.namespaceReady({ name: 'b' }, plainRequest, meanwhile, signal),
    refused('CONFLICT', /b ready: it is aggregated/),
  );
});

test('two aggregated namespaces of one resolution and retention are refused', async () => {
  const { admin } = newAdmin();
  const attributes = { resolutionDuration: '1m', downsampleOptions: { all: false } };
  const options = {
    ...fullOptions,
    aggregationOptions: { aggregations: [{ aggregated: true, attributes }] },
  };
  await admin.namespaceAdd({ name: 'one', options }, plainRequest, signal);
  await assert.rejects(
    admin.namespaceAdd({ name: 'two', options }, plainRequest, signal),
    refused('BAD_REQUEST', /namespace one has the same resolution and retention/),
  );
});

test('namespace update changes what is mutable and names what is not', async () => {
  const { admin } = newAdmin();
  await admin.namespaceAdd({ name: 'ns', options: fullOptions }, plainRequest, signal);
  const update = (options: object, name = 'ns') =>
    admin.namespaceUpdate({ name, options }, plainRequest, signal);
  const updated = await update({ retentionOptions: { retentionPeriodDuration: '4d' } });
  const ns = updated.registry.namespaces['ns'] as { retentionOptions: Record<string, string> };
  assert.equal(ns.retentionOptions['retentionPeriodNanos'], '345600000000000');
  const repairOf = async (options: object): Promise<unknown> => {
    const { registry } = await update(options);
    return (registry.namespaces['ns'] as { repairEnabled: unknown }).repairEnabled;
  };
  assert.equal(await repairOf({ repairEnabled: true }), true);
  assert.equal(await repairOf({ retentionOptions: { retentionPeriodDuration: '5d' } }), true);
  assert.equal(await repairOf({ repairEnabled: false }), false);
  await assert.rejects(
    update({ flushEnabled: false }),
    refused(
      'BAD_REQUEST',
      /^unable to validate update request: FlushEnabled: namespace option field is immutable; to delete the namespace and add it again removes its rows$/,
    ),
  );
  await assert.rejects(
    update({ retentionOptions: { blockSizeDuration: '4h' } }),
    refused(
      'BAD_REQUEST',
      /RetentionOptions\.BlockSizeDuration: namespace option field is immutable/,
    ),
  );
  await assert.rejects(
    update({ runtimeOptions: null }, 'other'),
    refused('NOT_FOUND', /unable to find a namespace with specified name/),
  );
});

test('namespace ready needs proof unless forced, and goes one way only', async () => {
  const { admin } = newAdmin();
  await admin.namespaceAdd({ name: 'ns', options: fullOptions }, plainRequest, signal);
  const status = async () => {
    const { registry } = await admin.namespaceGet(false, signal);
    return (registry.namespaces['ns'] as { stagingState: { status: string } }).stagingState.status;
  };
  const proofs: string[] = [];
  const failing = (name: string) => {
    proofs.push(name);
    return Promise.reject(new Error('no quorum'));
  };
  await admin.namespaceInitializing('ns', signal);
  assert.equal(await status(), 'INITIALIZING');
  await assert.rejects(
    admin.namespaceReady({ name: 'ns' }, plainRequest, failing, signal),
    /quorum/,
  );
  assert.equal(await status(), 'INITIALIZING');
  const forced = { name: 'ns', force: true };
  assert.deepEqual(await admin.namespaceReady(forced, plainRequest, failing, signal), {
    ready: true,
  });
  assert.deepEqual(proofs, ['ns']);
  assert.equal(await status(), 'READY');
  const again = await admin.namespaceReady({ name: 'ns' }, plainRequest, failing, signal);
  assert.deepEqual(again, { ready: true });
  await admin.namespaceInitializing('ns', signal);
  assert.equal(await status(), 'READY');
  await assert.rejects(
    admin.namespaceReady({ name: 'nope' }, plainRequest, failing, signal),
    refused('BAD_REQUEST', /nope/),
  );
});

test('namespace delete removes it, and 404 names the rule for an unknown one', async () => {
  const { admin } = newAdmin();
  await admin.namespaceAdd({ name: 'ns', options: fullOptions }, plainRequest, signal);
  assert.deepEqual(await admin.namespaceDelete('ns', plainRequest, signal), { deleted: true });
  await assert.rejects(
    admin.namespaceDelete('ns', plainRequest, signal),
    refused('NOT_FOUND', /^unable to find a namespace with specified name/),
  );
});

test('writers at the same time all succeed, each on top of the other', async () => {
  const { admin } = newAdmin();
  const names = Array.from({ length: 8 }, (_, i) => `ns${i}`);
  await Promise.all(
    names.map((name) => admin.namespaceAdd({ name, options: fullOptions }, plainRequest, signal)),
  );
  const { registry } = await admin.namespaceGet(false, signal);
  assert.deepEqual(Object.keys(registry.namespaces), names);
});

test('a damaged value in the store is reported with its key', async () => {
  const { admin, kv } = newAdmin();
  const key = '_kv/default_env/embedded/tsdb.node.namespaces';
  const put = {
    kind: 'put',
    key,
    value: new TextEncoder().encode('{"namespaces":{"x":{}}}'),
  } as const;
  await kv.transact([], [put], signal);
  await assert.rejects(
    admin.namespaceGet(false, signal),
    refused('INTERNAL', /key _kv\/default_env\/embedded\/tsdb\.node\.namespaces is damaged/),
  );
});

test('an endpoint that is no host and port is refused before anybody is asked there', async () => {
  const { admin } = newAdmin();
  const instances = [instance('h1', 'r1')];
  const body = { num_shards: 1, replication_factor: 1, instances };
  await admin.placementInit(body, plainRequest, signal);
  for (const endpoint of ['', '\0', 'h2', 'h 2:9000', 'h2:70000', 'http://h2:9000']) {
    const bad = [instance('h2', 'r2', { endpoint })];
    await assert.rejects(
      admin.placementAdd({ instances: bad, force: true }, plainRequest, signal),
      refused('BAD_REQUEST', /^instances\[0\]\.endpoint /),
    );
    const replace = { leavingInstanceIDs: ['h1'], candidates: bad, force: true };
    await assert.rejects(
      admin.placementReplace(replace, plainRequest, signal),
      refused('BAD_REQUEST', /^candidates\[0\]\.endpoint /),
    );
    const { placement, version } = await admin.placementGet(null, signal);
    Object.assign(placement.instances['h1']!, { endpoint });
    await assert.rejects(
      admin.placementSet({ placement, version, confirm: true, force: true }, plainRequest, signal),
      refused('BAD_REQUEST', /^placement: endpoint of instance h1 /),
    );
  }
});
