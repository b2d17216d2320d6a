import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { formatLevelFirst, formatLevelNewest } from '#lib/format_level.ts';
import { finishedFormatsKey } from '../kv/keys.ts';
import { MemoryKvStore } from '../kv/memory.ts';
import type { NodeHealth } from '../node/service.ts';
import { ClusterAdmin } from './admin.ts';
import { plainRequest } from './placement_requests.ts';

const { signal } = new AbortController();
const cluster = { environment: 'default_env', zone: 'embedded' };

/** An admin whose instances say what the test wants; one that is not named is away. */
function openAdmin() {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const said = new Map<string, Partial<NodeHealth>>();
  const current = {
    formatLevel: formatLevelNewest,
    formatLevelWritten: formatLevelFirst,
    formatLevelOfReaders: formatLevelNewest,
  };
  const nodeOf = ({ id }: { readonly id: string }) => ({
    health: async () => {
      const known = said.get(id);
      if (known === undefined) throw new TsdbError('UNAVAILABLE', 'connection refused');
      return { instanceId: id, ...current, ...known } as NodeHealth;
    },
  });
  const { clock, random } = realEnv;
  const admin = new ClusterAdmin({ kv, cluster, clock, random, nodeOf });
  const init = (ids: readonly string[]) =>
    admin.placementInit(
      { num_shards: 4, replication_factor: ids.length, instances: ids.map(instance) },
      plainRequest,
      signal,
    );
  const finishedLevel = async () => (await admin.upgradeStatus(signal)).formatLevel.finished;
  return { kv, admin, said, init, finishedLevel };
}

function instance(id: string): object {
  return {
    id,
    isolation_group: id,
    zone: 'embedded',
    weight: 1,
    endpoint: `${id}:9000`,
    hostname: id,
    port: 9000,
  };
}

test('an upgrade is finished when all instances read the newest formats, and who does not is named', async () => {
  const { admin, said, init, finishedLevel } = openAdmin();
  await assert.rejects(admin.upgradeFinish(plainRequest, signal), { code: 'NOT_FOUND' });
  await init(['a', 'b', 'c']);
  assert.equal(await finishedLevel(), 1, 'nobody answered when the placement was made');

  said.set('a', {});
  said.set('b', { formatLevel: 1, formatLevelOfReaders: 1 });
  await assert.rejects(
    admin.upgradeFinish(plainRequest, signal),
    (error: TsdbError) =>
      error.code === 'CONFLICT' &&
      !/\ba (is|was|does)/.test(error.message) &&
      /b is of an earlier release.*level 1/.test(error.message) &&
      /c does not answer \(connection refused\)/.test(error.message),
  );
  said.set('b', { formatLevelOfReaders: 1 });
  said.set('c', { instanceId: 'x' });
  const { behind } = await admin.upgradeStatus(signal);
  assert.match(behind[0]!, /^b was read .* coordinator or client of an earlier release/);
  assert.match(behind[1]!, /^c .*instance x answers at its endpoint/);
  assert.equal(await finishedLevel(), 1);

  const force = { dryRun: true, force: true };
  await assert.rejects(
    admin.upgradeFinish(force, signal),
    new RegExp(`level ${formatLevelNewest}: c does not answer[^;]*$`),
  );
  said.set('b', {});
  said.set('c', {});
  const dryRun = { dryRun: true, force: false };
  assert.equal((await admin.upgradeFinish(dryRun, signal)).formatLevel.finished, formatLevelNewest);
  assert.equal(await finishedLevel(), 1, 'a dry run writes nothing');
  assert.equal(
    (await admin.upgradeFinish(plainRequest, signal)).formatLevel.finished,
    formatLevelNewest,
  );
  assert.equal(await finishedLevel(), formatLevelNewest);
  said.clear();
  const again = await admin.upgradeFinish(plainRequest, signal);
  assert.equal(
    again.formatLevel.finished,
    formatLevelNewest,
    'what is finished stays so, whoever is away',
  );
});

test('nodes that start after the first placement was made are asked before the first namespace is ready', async () => {
  const { admin, said, init, finishedLevel } = openAdmin();
  await init(['a', 'b']);
  const names = ['first', 'second', 'third'] as const;
  const attributes = { aggregated: false };
  for (const name of names) {
    const options = {
      retentionOptions: { retentionPeriodDuration: '48h', blockSizeDuration: '2h' },
      indexOptions: { enabled: true, blockSizeDuration: '2h' },
      aggregationOptions: { aggregations: [attributes] },
    };
    await admin.namespaceAdd({ name, options }, plainRequest, signal);
  }
  const ready = (name: (typeof names)[number], dryRun = false): Promise<unknown> =>
    admin.namespaceReady({ name }, { dryRun, force: false }, async () => {}, signal);
  said.set('a', {});
  said.set('b', { formatLevel: 1 });
  await ready('first');
  assert.equal(await finishedLevel(), 1, 'b is of an earlier release');
  said.set('b', {});
  await ready('second');
  assert.equal(await finishedLevel(), 1, 'there are data: who upgrades says when');

  const other = openAdmin();
  await other.init(['a']);
  const options = { ...(await admin.namespaces.get(signal)).value.get('first')!.options };
  await other.admin.namespaces.update(
    (registry) =>
      new Map([
        ...registry,
        ['first', { name: 'first', options: { ...options, stagingStatus: 'UNKNOWN' } }],
      ]),
    signal,
  );
  other.said.set('a', {});
  const of = (dryRun: boolean): Promise<unknown> =>
    other.admin.namespaceReady({ name: 'first' }, { dryRun, force: false }, async () => {}, signal);
  await of(true);
  assert.equal(await other.finishedLevel(), 1, 'a dry run writes nothing');
  await of(false);
  assert.equal(await other.finishedLevel(), formatLevelNewest);
});

test('who cannot read what is written does not join', async () => {
  const { admin, said, init } = openAdmin();
  said.set('a', {});
  await init(['a']);
  said.set('old', { formatLevel: 1 });
  const force = { dryRun: false, force: true };
  const add = (id: string) => admin.placementAdd({ instances: [instance(id)] }, force, signal);
  const conflict = {
    code: 'CONFLICT',
    message: /level 4, .*earlier release.*: old reads up to 1$/,
  };
  await assert.rejects(add('old'), conflict);
  const replace = { leavingInstanceIDs: ['a'], candidates: [instance('old')] };
  await assert.rejects(admin.placementReplace(replace, force, signal), conflict);
  // One that does not run yet, and one that was upgraded.
  await add('b');
  said.set('old', {});
  assert.ok('old' in (await add('old')).placement.instances);
});

test('a new cluster is finished at once when all of its instances say that they read everything', async () => {
  for (const isOld of [false, true]) {
    const { admin, said, init, finishedLevel } = openAdmin();
    said.set('a', {});
    said.set('b', isOld ? { formatLevel: 1 } : {});
    await init(['a', 'b']);
    assert.equal(await finishedLevel(), isOld ? 1 : formatLevelNewest);
    // The one instance of a single process.
    const single = openAdmin();
    single.said.set('tsdb_local', isOld ? { formatLevel: 1 } : {});
    const body = { type: 'local', namespaceName: 'ns' };
    await single.admin.databaseCreate(body, plainRequest, signal);
    assert.equal(await single.finishedLevel(), isOld ? 1 : formatLevelNewest);
    await admin.placementDelete(plainRequest, signal);
  }
});

test('a finished level that a later release has written stays, and a damaged one is said', async () => {
  const { kv, admin, said, init, finishedLevel } = openAdmin();
  said.set('a', {});
  await init(['a']);
  const key = finishedFormatsKey(cluster);
  const put = (text: string) =>
    kv.transact([], [{ kind: 'put', key, value: new TextEncoder().encode(text) }], signal);
  await put('{"level":7,"by":"a later release"}');
  assert.equal((await admin.upgradeFinish(plainRequest, signal)).formatLevel.finished, 7);
  assert.equal(await finishedLevel(), 7);
  await put('{"level":"many"}');
  await assert.rejects(admin.upgradeFinish(plainRequest, signal), /level: not a whole number/);
});
