import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { type Namespace, registryOf } from '#cluster/namespaces/namespaces.ts';
import { type SchemaText, schemasOf, withReset, withSchema } from '#cluster/namespaces/schemas.ts';
import { rowOutcome } from '#cluster/node/service.ts';
import { MessageEncoder } from '#engine/messages/canonical.ts';
import { wireFromJson } from '#engine/messages/json.ts';
import { realEnv } from '#lib/env/real.ts';
import {
  adopt,
  closeDatabases,
  namespaceOf,
  onePlacement,
  openDatabase,
  type TestRow,
  writeRows,
} from '../database_testing.ts';

const folders: string[] = [];
after(async () => {
  await closeDatabases();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-values-'));
  folders.push(folder);
  return folder;
}

const now = realEnv.clock.nowNanos();

const textOf = (fields: string): SchemaText => ({
  messageName: 'Reading',
  protoName: 'reading.proto',
  protoMap: { 'reading.proto': `syntax = "proto3"; message Reading { ${fields} }` },
});

const namespaceWith = (...texts: readonly string[]): Namespace => {
  const schemas = texts.reduce(
    (before, fields, i) => withSchema(before, textOf(fields), `deployed ${fields}`, 60_000 * i),
    [] as ReturnType<typeof withSchema>,
  );
  return schemas.length === 0 ? namespaceOf('metrics') : { ...namespaceOf('metrics'), schemas };
};

/** A row with a message by the newest schema of the namespace. */
function messageRow(namespace: Namespace, json: object): TestRow {
  const { number, type } = schemasOf(namespace)!.current;
  const message = new MessageEncoder().encode(wireFromJson(json as never, type), type, number);
  return { series: { __name__: 'a' }, nanos: now, value: 0, isTyped: true, message };
}

const floatRow: TestRow = { series: { __name__: 'a' }, nanos: now, value: 1 };

test('a namespace with a schema takes messages of it, and refuses others row by row for a passing reason', async () => {
  const namespace = namespaceWith('double load = 1;');
  const registry = registryOf([namespace]);
  const { database } = await openDatabase(temporaryFolder(), { registry });
  const good = messageRow(namespace, { load: 1.5 });
  const histogram: TestRow = { ...floatRow, isTyped: true };
  const strange = messageRow(namespaceWith('string load = 1;'), { load: 'high' });
  const { outcomes } = await writeRows(database, [floatRow, good, histogram, strange]);
  assert.deepEqual(
    [...outcomes],
    [rowOutcome.otherSchema, rowOutcome.written, rowOutcome.otherSchema, rowOutcome.badValue],
  );
  const allGood = await writeRows(database, [good]);
  assert.deepEqual([...allGood.outcomes], []);
});

test('a namespace without a schema takes no messages, and neither does one whose schema was reset', async () => {
  const before = namespaceWith('double load = 1;');
  const { database } = await openDatabase(temporaryFolder(), { registry: registryOf([before]) });
  const row = messageRow(before, { load: 1 });
  const reset = { ...before, schemas: withReset(before.schemas!, 'reset', 0) };
  await adopt(database, onePlacement, 1, registryOf([reset]));
  const { outcomes } = await writeRows(database, [floatRow, row]);
  assert.deepEqual([...outcomes], [rowOutcome.written, rowOutcome.otherSchema]);
});

test('rows of a schema that the node has not heard of wait until it has read the namespaces anew', async () => {
  const first = namespaceWith('double load = 1;');
  const second = namespaceWith('double load = 1;', 'double load = 1; int64 count = 2;');
  const { database } = await openDatabase(temporaryFolder(), { registry: registryOf([first]) });
  let asked = 0;
  database.admission.onUnknownNamespace = () => {
    asked += 1;
    void adopt(database, onePlacement, 1, registryOf([second]));
  };
  const { outcomes } = await writeRows(database, [messageRow(second, { count: '7' })]);
  assert.deepEqual([...outcomes], []);
  assert.equal(asked, 1);
  const old = await writeRows(database, [messageRow(first, { load: 7 })]);
  assert.deepEqual([...old.outcomes], [], 'a writer that is behind is taken');
});
