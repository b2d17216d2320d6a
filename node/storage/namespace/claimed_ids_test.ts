import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { rowOutcome } from '#cluster/node/service.ts';
import { BatchBuilder } from '#engine/batch/batch.ts';
import { realEnv } from '#lib/env/real.ts';
import { idOfTags } from '#lib/series_id/from_tags.ts';
import { type IdScheme, idSchemeCode } from '#lib/series_id/scheme.ts';
import { decodeTags, encodeTags, type Tag } from '#lib/tags.ts';
import type { Database } from '../database.ts';
import { closeDatabases, never, openDatabase } from '../database_testing.ts';

const folders: string[] = [];

after(async () => {
  await closeDatabases();
  for (const folder of folders) rmSync(folder, { recursive: true });
});

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-claimed-ids-'));
  folders.push(folder);
  return folder;
}

const now = (realEnv.clock.nowNanos() / 1_000_000_000n) * 1_000_000_000n;
const victim: Tag[] = [
  { name: '__name__', value: 'up' },
  { name: 'job', value: 'node' },
];
const evil: Tag[] = [{ name: '__name__', value: 'evil' }];
const written = rowOutcome.written;
const otherTags = rowOutcome.otherTags;

interface Row {
  readonly tags: readonly Tag[];
  /** An explicit ID, or the scheme that makes it. */
  readonly id: string | { readonly scheme: IdScheme };
  readonly value: number;
}

let version = 0;

/** Rows of one batch, each with an entry of its own. @returns their outcomes */
async function write(database: Database, rows: readonly Row[]): Promise<number[]> {
  const builder = new BatchBuilder();
  version = Math.max(version + 1, realEnv.clock.nowMillis() * 64);
  builder.begin(Math.floor(version));
  for (const { tags, id } of rows) {
    const bytes = Buffer.from(typeof id === 'string' ? id : '');
    const scheme = typeof id === 'string' ? idSchemeCode.explicit : idSchemeCode[id.scheme];
    builder.addSeries(encodeTags(tags), scheme, bytes);
  }
  builder.setRows(
    rows.length,
    Uint32Array.from(rows.keys()),
    new Uint32Array(rows.length),
    BigInt64Array.from(rows, (_, i) => now + BigInt(i)),
    1,
    Float64Array.from(rows, ({ value }) => value),
  );
  const batch = builder.finish();
  const request = { namespace: 'metrics', placementVersion: 1, referenceEpoch: '', batch };
  const { outcomes } = await database.write(request, never);
  return outcomes.length === 0 ? rows.map(() => written) : [...outcomes];
}

/** Tags of all series, as text. */
async function seriesOf(database: Database): Promise<string[]> {
  const { bundle } = await database.fetch(
    {
      namespace: 'metrics',
      placementVersion: 0,
      query: { kind: 'all' },
      shards: null,
      seriesLimit: 0,
      fetchData: true,
      startNanos: 0n,
      endNanos: 2n ** 62n,
    },
    never,
  );
  const { tagsData, tagsOffset, idData, idOffset, chunkOffset } = bundle;
  return Array.from({ length: bundle.seriesCount }, (_, i) => {
    const tags = decodeTags(tagsData.subarray(tagsOffset[i], tagsOffset[i + 1]));
    const id = Buffer.from(idData.subarray(idOffset[i], idOffset[i + 1])).toString();
    assert.ok(chunkOffset[i + 1]! > chunkOffset[i]!, 'it has rows');
    return `${id}${idOfTags(tags, 'quoted')}`;
  }).sort();
}

test('an explicit ID that a scheme makes of other tags is refused, before and after the series is there', async () => {
  for (const scheme of ['quoted', 'prepend_meta', 'legacy'] as const) {
    const { database } = await openDatabase(temporaryFolder());
    const id = idOfTags(victim, scheme);
    const outcomes = await write(database, [
      { tags: evil, id: 'mine', value: 1 },
      { tags: evil, id, value: 1 },
      { tags: [], id, value: 1 },
      { tags: victim, id: { scheme }, value: 2 },
      { tags: evil, id, value: 3 },
      { tags: evil, id: { scheme }, value: 4 },
    ]);
    const expected = [written, otherTags, otherTags, written, otherTags, written];
    assert.deepEqual(outcomes, expected, scheme);
    assert.deepEqual(
      await seriesOf(database),
      ['mine{__name__="evil"}', '{__name__="evil"}', '{__name__="up",job="node"}'],
      scheme,
    );
    // Who has the ID alone means the series.
    assert.deepEqual(await write(database, [{ tags: [], id, value: 5 }]), [written]);
    assert.equal((await seriesOf(database)).length, 3);
  }
});

test('an explicit ID that is made from the very tags is that series, whichever comes first', async () => {
  for (const scheme of ['quoted', 'prepend_meta', 'legacy'] as const) {
    const id = idOfTags(victim, scheme);
    const rows: Row[] = [
      { tags: victim, id, value: 1 },
      { tags: victim, id: { scheme }, value: 2 },
    ];
    for (const order of [rows, rows.toReversed()]) {
      const folder = temporaryFolder();
      const { database } = await openDatabase(folder);
      for (const row of order) assert.deepEqual(await write(database, [row]), [written], scheme);
      assert.deepEqual(await seriesOf(database), ['{__name__="up",job="node"}'], scheme);
      // As by a crash: the log names the series as its writer did.
      const { database: next } = await openDatabase(folder);
      assert.deepEqual(await seriesOf(next), ['{__name__="up",job="node"}'], scheme);
    }
  }
});

test('a second write of an explicit ID with other tags is refused and changes nothing', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder);
  const outcomes = await write(database, [
    { tags: victim, id: 'foo', value: 1 },
    { tags: evil, id: 'foo', value: 2 },
    { tags: victim, id: 'foo', value: 3 },
    { tags: [], id: 'foo', value: 4 },
  ]);
  assert.deepEqual(outcomes, [written, otherTags, written, written]);
  const { database: next } = await openDatabase(folder);
  for (const each of [database, next]) {
    assert.deepEqual(await seriesOf(each), ['foo{__name__="up",job="node"}']);
    assert.deepEqual(await write(each, [{ tags: evil, id: 'foo', value: 2 }]), [otherTags]);
  }
});

test('what an earlier release let in stays as it is, and takes nobody else’s rows', async () => {
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder);
  const namespace = database.namespaces.get('metrics')!;
  const id = idOfTags(victim, 'quoted');
  // As replay, bootstrap and repair name what is there already.
  const squatter = {
    idScheme: idSchemeCode.explicit,
    tags: encodeTags(evil),
    explicitId: Buffer.from(id),
  };
  const slot = namespace.resolveHere(squatter);
  assert.ok(slot >= 0);
  assert.equal(namespace.resolveHere(squatter), slot);
  const name = { idScheme: idSchemeCode.quoted, tags: encodeTags(victim), explicitId: Buffer.of() };
  assert.equal(namespace.resolveHere(name), slot, 'a stream of it does not fail');
  assert.deepEqual(
    await write(database, [
      { tags: victim, id: { scheme: 'quoted' }, value: 1 },
      { tags: evil, id, value: 1 },
      { tags: evil, id: 'x', value: 1 },
    ]),
    [otherTags, written, written],
  );
});

test('a path is the ID of who comes first with it: of its own series, or of another one', async () => {
  const nodes: Tag[] = [
    { name: '__g0__', value: 'servers' },
    { name: '__g1__', value: 'up' },
  ];
  const id = 'servers.up';
  const path = { tags: nodes, id: { scheme: 'path' }, value: 1 } as const;
  const folder = temporaryFolder();
  const { database } = await openDatabase(folder);
  const outcomes = await write(database, [
    path,
    { tags: evil, id, value: 2 },
    { tags: [], id, value: 3 },
    { tags: nodes, id, value: 4 },
    { tags: nodes, id: { scheme: 'quoted' }, value: 5 },
    { tags: evil, id: { scheme: 'path' }, value: 6 },
  ]);
  const { badSeries } = rowOutcome;
  assert.deepEqual(outcomes, [written, otherTags, written, written, written, badSeries]);
  const both = ['{__g0__="servers",__g1__="up"}', '{__g0__="servers",__g1__="up"}'];
  assert.deepEqual(await seriesOf(database), both);
  // As by a crash.
  const { database: next } = await openDatabase(folder);
  assert.deepEqual(await seriesOf(next), both);
  assert.deepEqual(await write(next, [{ tags: evil, id, value: 2 }, path]), [otherTags, written]);

  const { database: squatted } = await openDatabase(temporaryFolder());
  const squatter = [{ tags: evil, id, value: 1 }, path];
  assert.deepEqual(await write(squatted, squatter), [written, otherTags]);
});
