import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { ClusterAdmin } from '#cluster/admin/admin.ts';
import { plainRequest } from '#cluster/admin/placement_requests.ts';
import { MemoryKvStore } from '#cluster/kv/memory.ts';
import { schemasOf } from '#cluster/namespaces/schemas.ts';
import { Topology } from '#cluster/topology/topology.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { ConfiguredSchemas, readConfiguredSchemas } from './configured_schemas.ts';

const { signal } = new AbortController();
const cluster = { environment: 'default_env', zone: 'embedded' };

const fileOf = (fields: string) => `syntax = "proto3"; package telemetry;
import "common.proto"; message Reading { ${fields} Place place = 15; }`;

test('a configured schema is deployed once its namespace is there, and what was deployed later stands', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-schemas-'));
  using _ = { [Symbol.dispose]: () => rmSync(folder, { recursive: true }) };
  const path = join(folder, 'reading.proto');
  const common = 'syntax = "proto3"; package telemetry; message Place { double lat = 1; }';
  writeFileSync(join(folder, 'common.proto'), common);
  writeFileSync(path, fileOf('double load = 1;'));
  const configured = [
    { namespace: 'devices', schemaFilePath: path, messageName: 'telemetry.Reading' },
  ];
  const texts = await readConfiguredSchemas(configured, realEnv.disk);
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  const { clock, random } = realEnv;
  const admin = new ClusterAdmin({ kv, cluster, clock, random });
  await using topology = new Topology({ kv, cluster, env: realEnv, log: silentLog }).start();
  const target = { namespaces: admin.namespaces, clock, random };
  using _deployer = new ConfiguredSchemas(texts, target, topology, clock, silentLog);
  using _other = new ConfiguredSchemas(texts, target, topology, clock, silentLog);
  const names = async (count: number) => {
    const { namespaces } = await topology.until(
      (view) => view.namespaces.get('devices')?.schemas?.length === count,
      signal,
    );
    return schemasOf(namespaces.get('devices')!)!.current.type.fields.map(({ name }) => name);
  };
  await admin.databaseCreate({ type: 'local', namespaceName: 'devices' }, plainRequest, signal);
  assert.deepEqual(await names(1), ['load', 'place']);
  const deploy = (fields: string) =>
    admin.schemaDeploy(
      {
        name: 'devices',
        msgName: 'telemetry.Reading',
        protoName: 'reading.proto',
        protoMap: { 'reading.proto': fileOf(fields), 'common.proto': common },
      },
      plainRequest,
      signal,
    );
  await deploy('double load = 1; int64 count = 2;');
  assert.deepEqual(await names(2), ['load', 'count', 'place']);
  await clock.sleep(50, signal);
  assert.equal((await admin.namespaces.get(signal)).value.get('devices')!.schemas!.length, 2);
  await admin.schemaReset({ name: 'devices' }, { ...plainRequest, force: true }, signal);
  await topology.until((view) => view.namespaces.get('devices')?.schemas?.length === 3, signal);
  await clock.sleep(50, signal);
  using _third = new ConfiguredSchemas(texts, target, topology, clock, silentLog);
  await clock.sleep(50, signal);
  const { schemas } = (await admin.namespaces.get(signal)).value.get('devices')!;
  assert.equal(schemasOf({ schemas: schemas! }), null, 'a reset stands, also after a start');
});

test('a configured schema that cannot be read stops the start with the setting and the file', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-schemas-'));
  using _ = { [Symbol.dispose]: () => rmSync(folder, { recursive: true }) };
  const path = join(folder, 'reading.proto');
  const configured = [{ namespace: 'devices', schemaFilePath: path, messageName: 'Reading' }];
  const refused = (message: RegExp) =>
    assert.rejects(readConfiguredSchemas(configured, realEnv.disk), message);
  await refused(
    /^ConfigError: .*\n  db\.proto\.schema_registry\.devices: .*reading\.proto: .*no such file/,
  );
  writeFileSync(path, 'syntax = "proto3"; message Reading { doubl }');
  await refused(/reading\.proto.*line 1/);
  writeFileSync(path, 'syntax = "proto3"; import "other.proto"; message Reading {}');
  await refused(/other\.proto/);
});
