import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { MemoryKvStore } from '../kv/memory.ts';
import { schemasOf, type SchemaVersion, withReset, withSchema } from '../namespaces/schemas.ts';
import { Topology } from '../topology/topology.ts';
import { ClusterAdmin } from './admin.ts';
import { type AdminOptions, plainRequest } from './placement_requests.ts';

const { signal } = new AbortController();
const cluster = { environment: 'default_env', zone: 'embedded' };
const forced: AdminOptions = { ...plainRequest, force: true };

async function newCluster(nowMillis: () => number = () => 1_800_000_000_000) {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const clock = { ...realEnv.clock, nowMillis };
  const admin = new ClusterAdmin({ kv, cluster, clock, random: realEnv.random });
  const create = (namespaceName: string) =>
    admin.databaseCreate({ type: 'local', namespaceName }, plainRequest, signal);
  await create('devices');
  const schemas = async () => (await admin.namespaces.get(signal)).value.get('devices')!.schemas;
  return { kv, admin, create, schemas };
}

const deployment = (fields: string, more: object = {}) => ({
  name: 'devices',
  msgName: 'telemetry.Reading',
  protoName: 'reading.proto',
  protoMap: {
    'reading.proto': `syntax = "proto3"; package telemetry; message Reading { ${fields} }`,
  },
  ...more,
});

test('a schema is deployed, shown with its namespace, and followed by others that keep its meaning', async () => {
  const { admin, schemas } = await newCluster();
  const first = await admin.schemaDeploy(deployment('double load = 1;'), plainRequest, signal);
  assert.match(first.deployID, /^[0-9a-f]{24}$/);
  const again = await admin.schemaDeploy(deployment('double load = 1;'), plainRequest, signal);
  assert.deepEqual(again, first, 'the same one is not deployed twice');
  const next = deployment('double load = 1; int64 count = 2;');
  const dry = await admin.schemaDeploy(next, { ...plainRequest, dryRun: true }, signal);
  assert.notEqual(dry.deployID, first.deployID);
  assert.equal((await schemas())?.length, 1, 'a dry run writes nothing');
  const second = await admin.schemaDeploy(next, plainRequest, signal);

  const { registry } = await admin.namespaceGet(false, signal);
  const { schemaOptions } = registry.namespaces['devices'] as { schemaOptions: unknown };
  const minutes = 1_800_000_000_000 / 60_000;
  const version = (number: number, deployId: string, prevId: string, body: object) => ({
    ...{ number: String(number), deployId, prevId },
    msgName: 'telemetry.Reading',
    protoName: 'reading.proto',
    protoMap: (body as typeof next).protoMap,
  });
  const versions = [
    version(minutes, first.deployID, '', deployment('double load = 1;')),
    version(minutes + 1, second.deployID, first.deployID, next),
  ];
  assert.deepEqual(schemaOptions, {
    history: { versions },
    defaultMessageName: 'telemetry.Reading',
  });
  assert.deepEqual(await admin.schemaGet('devices', signal), { name: 'devices', versions });

  const retype = deployment('string load = 1;');
  await assert.rejects(admin.schemaDeploy(retype, plainRequest, signal), {
    code: 'BAD_REQUEST',
    message:
      'cannot change schema: load: number 1 was double and is string; give it another number',
  });
  const reuse = deployment('double load = 1; string name = 2;');
  await assert.rejects(
    admin.schemaDeploy(reuse, plainRequest, signal),
    /name: number 2 was int64 and is string/,
  );
  assert.equal((await schemas())?.length, 2);
});

test('a deployment that is wrong is refused by its field', async () => {
  const { admin, schemas } = await newCluster();
  const refusals: [object, string, RegExp][] = [
    [deployment('', { name: '' }), 'BAD_REQUEST', /^missing required field: name$/],
    [deployment('', { name: 'nobody' }), 'NOT_FOUND', /unable to find a namespace.*"nobody"/],
    [deployment('', { msgName: '' }), 'BAD_REQUEST', /^missing required field: msgName$/],
    [
      deployment('', { protoName: 'other.proto' }),
      'BAD_REQUEST',
      /^protoName: not among the files/,
    ],
    [deployment('', { protoMap: {} }), 'BAD_REQUEST', /^missing required field: protoMap$/],
    [deployment('', { protoMap: [1] }), 'BAD_REQUEST', /^protoMap: not an object/],
    [deployment('', { protoMap: { a: 1 } }), 'BAD_REQUEST', /^protoMap\.a: not a string: 1$/],
    [deployment('', { deploy: 1 }), 'BAD_REQUEST', /unknown field.*deploy|deploy/],
    [deployment('double = 1;'), 'BAD_REQUEST', /reading\.proto.*line 1/],
    [
      deployment('oneof kind { double load = 1; int64 count = 2; }'),
      'BAD_REQUEST',
      /telemetry\.Reading\.load: oneof is not supported/,
    ],
    [deployment('', { msgName: 'telemetry.Other' }), 'BAD_REQUEST', /no such message/],
  ];
  for (const [body, code, message] of refusals) {
    await assert.rejects(admin.schemaDeploy(body, plainRequest, signal), (error: Error) => {
      assert.equal((error as { code?: string }).code, code, error.message);
      assert.match(error.message, message);
      return true;
    });
  }
  const long = (length: number, field: string) =>
    deployment(`double load = 1; // ${'x'.repeat(length)}\n ${field}`);
  const deploy = (body: object) => admin.schemaDeploy(body, plainRequest, signal);
  await assert.rejects(deploy(long(131_072, '')), /^.*protoMap: files of more than 131072 bytes/);
  assert.equal(await schemas(), undefined);
  for (const number of [2, 3, 4, 5]) await deploy(long(120_000, `int32 a${number} = ${number};`));
  await assert.rejects(
    deploy(long(120_000, 'int32 a6 = 6;')),
    /those of all namespaces would take \d+ bytes of 524288/,
  );
});

test('a schema whose fields are reached in too many ways is refused, and so is one that makes too many with those before', async () => {
  const { admin, schemas } = await newCluster();
  const deploy = (body: object) => admin.schemaDeploy(body, plainRequest, signal);
  const chained = (leaf: string): string => {
    const levels = Array.from(
      { length: 24 },
      (_, i) => `message L${i} { L${i + 1} a = 1; L${i + 1} b = 2; }`,
    );
    return `L0 top = 1; ${levels.join(' ')} message L24 { ${leaf} }`;
  };
  const many =
    /^TsdbError: cannot take schema: telemetry\.Reading: more than 10000 fields, those of messages/;
  await assert.rejects(deploy(deployment(chained('double load = 1;'))), many);
  await assert.rejects(deploy(deployment(chained('string name = 1;'))), many);
  const all = Array.from({ length: 12 }, (_, i) => i);
  const mutual = all.map(
    (i) => `message N${i} { ${all.map((k) => `N${k} f${k} = ${k + 1};`).join(' ')} }`,
  );
  await assert.rejects(deploy(deployment(`N0 top = 1; ${mutual.join(' ')}`)), many);
  await assert.rejects(
    deploy(deployment(`double ${'a'.repeat(1_025)} = 1;`)),
    /path of a field is longer than 1024: a+…/,
  );
  assert.equal(await schemas(), undefined);
  // Messages that come again after so many others: together they come again after all the products.
  const ring = (length: number): string => {
    const messages = Array.from(
      { length },
      (_, i) => `message C${i} { C${(i + 1) % length} next = 1; double load = 2; }`,
    );
    return `C0 ring = 1; ${messages.join(' ')}`;
  };
  await deploy(deployment(ring(7)));
  await deploy(deployment(ring(11)));
  const together = /with the schemas before there are more than 1000 messages/;
  await assert.rejects(deploy(deployment(ring(13))), together);
  await assert.rejects(deploy(deployment(ring(31))), together);
  assert.equal((await schemas())?.length, 2);
});

test('a reset asks for force, and after it another meaning may be deployed', async () => {
  const { admin, schemas } = await newCluster();
  await admin.schemaDeploy(deployment('double load = 1;'), plainRequest, signal);
  const [before] = (await schemas())!;
  await assert.rejects(admin.schemaReset({ name: 'devices' }, plainRequest, signal), /Force: true/);
  assert.deepEqual(await admin.schemaReset({ name: 'devices' }, forced, signal), {});
  const ended = await schemas();
  assert.equal(schemasOf({ schemas: ended! }), null);
  await admin.schemaReset({ name: 'devices' }, forced, signal);
  assert.deepEqual(await schemas(), ended, 'there is nothing to reset');
  await admin.schemaDeploy(deployment('string load = 1;'), plainRequest, signal);
  const known = schemasOf({ schemas: (await schemas())! })!;
  assert.equal(known.current.type.named('load')?.kind, 'string');
  assert.equal(known.has(before!.number), false, 'rows of before are read no more');
});

test('a namespace of aggregated samples takes no schema, and one with a schema none of these', async () => {
  const { admin } = await newCluster();
  await admin.databaseCreate(
    {
      ...{ type: 'local', namespaceName: 'raw' },
      aggregatedNamespace: { name: 'long', resolution: '5m', retentionTime: '60d' },
    },
    plainRequest,
    signal,
  );
  await assert.rejects(
    admin.schemaDeploy(deployment('double load = 1;', { name: 'long' }), plainRequest, signal),
    /cannot deploy schema: namespace long holds aggregated samples/,
  );
  await admin.schemaDeploy(deployment('double load = 1;'), plainRequest, signal);
  const { registry } = await admin.namespaceGet(false, signal);
  const { aggregationOptions } = registry.namespaces['long'] as { aggregationOptions: object };
  await assert.rejects(
    admin.namespaceUpdate(
      { name: 'devices', options: { aggregationOptions } },
      plainRequest,
      signal,
    ),
    /cannot aggregate namespace devices: it has a schema/,
  );
});

test('schemas that stand have a limit, which a reset is not kept from', async () => {
  const deployId = 'a'.repeat(24);
  const textOf = (i: number) => ({
    ...{ messageName: 'M', protoName: 'm.proto' },
    protoMap: { 'm.proto': `syntax = "proto3"; message M { double load = 1; } // ${i}` },
  });
  let versions: readonly SchemaVersion[] = [];
  const deploy = (i: number) => withSchema(versions, textOf(i), deployId, 60_000 * 100);
  for (let i = 0; i < 1_000; i++) versions = deploy(i);
  assert.throws(() => deploy(1_000), /1000 stand in the namespace.*a reset ends them/);
  const numberBefore = versions.at(-1)!.number;
  for (let round = 0; round < 3; round++) {
    versions = withReset(versions, deployId, 0);
    assert.equal(schemasOf({ schemas: versions }), null);
    assert.ok(versions.length <= 1_001);
    versions = deploy(round);
  }
  assert.ok(versions.at(-1)!.number > numberBefore);
});

test('a namespace that is made again has no schema, and numbers of schemas do not come again in a store that went back', async () => {
  let now = 1_800_000_000_000;
  const { kv, admin, create, schemas } = await newCluster(() => now);
  const backup = await kv.list('', signal);
  await admin.schemaDeploy(deployment('double load = 1;'), plainRequest, signal);
  const [first] = (await schemas())!;
  now += 120_000;
  await admin.namespaceDelete('devices', plainRequest, signal);
  await create('devices');
  assert.equal(await schemas(), undefined);

  const restored = new MemoryKvStore({ clock: realEnv.clock }).client();
  for (const { key, value } of backup.items) {
    await restored.transact([], [{ kind: 'put', key, value }], signal);
  }
  const clock = { ...realEnv.clock, nowMillis: () => now };
  const later = new ClusterAdmin({ kv: restored, cluster, clock, random: realEnv.random });
  await later.schemaDeploy(deployment('string load = 1;'), plainRequest, signal);
  const { value } = await later.namespaces.get(signal);
  assert.ok(value.get('devices')!.schemas![0]!.number > first!.number);
});

test('those who follow the namespaces hear of a schema at once', async () => {
  const { kv, admin } = await newCluster();
  await using topology = new Topology({ kv, cluster, env: realEnv, log: silentLog }).start();
  await topology.whenLoaded(signal);
  const { promise, resolve } = Promise.withResolvers<void>();
  topology.subscribe((view) => {
    if (view.namespaces.get('devices')?.schemas !== undefined) resolve();
  });
  await admin.schemaDeploy(deployment('double load = 1;'), plainRequest, signal);
  await promise;
});

test('values are shown by the fields of all schemas, each as the newest one names it', async () => {
  const { admin, schemas } = await newCluster();
  for (const fields of [
    'double load = 1; Disk disk = 2; message Disk { int32 used = 1; int32 gone = 2; }',
    'double mean_load = 1; int64 count = 3; Disk disk = 2; message Disk { int64 used = 1; int64 free = 3; }',
  ]) {
    await admin.schemaDeploy(deployment(fields), plainRequest, signal);
  }
  const { shown } = schemasOf({ schemas: (await schemas())! })!;
  assert.deepEqual(
    shown.fields.map(({ name }) => name),
    ['mean_load', 'disk', 'count'],
  );
  const disk = shown.named('disk')!.message!;
  assert.deepEqual(
    disk.fields.map(({ name, kind }) => [name, kind]),
    [
      ['used', 'int64'],
      ['gone', 'int32'],
      ['free', 'int64'],
    ],
  );
});
