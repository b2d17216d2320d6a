import assert from 'node:assert/strict';
import { test } from 'node:test';
import { countedAside, turningOf } from '#engine/aside/turning_testing.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { decodeTags } from '#lib/tags.ts';
import { popCount } from '../../index/query/slot_set.ts';
import { ColumnsQuery } from './columns_query.ts';
import { SeriesColumns } from './series_columns.ts';
import { fileOf, fuzz, fuzzDamage, sourceOf, type WrittenSeries } from './series_columns_fuzz.ts';

test('queries over columns find what a look at every series finds', async () => {
  for (let seed = 1; seed <= 60; seed++) await fuzz(seed, seed % 3 === 0 ? 40 : 600);
});

test('columns that are damaged are said to be', async () => {
  for (let seed = 1; seed <= 400; seed++) await fuzzDamage(seed, 60);
});

const pods = (count: number): WrittenSeries[] =>
  Array.from({ length: count }, (_, i) => ({
    tags: [
      { name: '__name__', value: 'requests_total' },
      { name: 'app', value: `app-${i % 20}` },
      { name: 'pod', value: `app-${i % 20}-${i.toString(16).padStart(8, '0')}` },
    ],
    idScheme: idSchemeCode.quoted,
    explicitId: '',
    offset: 16 + 100 * i,
    length: 100,
    checksum: i,
  }));

test('a query reads the columns that it is about, and a value of many is found without the others', async () => {
  const bytes = fileOf(pods(20_000));
  const source = sourceOf(bytes);
  const columns = await SeriesColumns.open(source);
  const of = async (app: string): Promise<number> => {
    const query = {
      kind: 'conjunction',
      queries: [
        { kind: 'term', field: '__name__', term: 'requests_total' },
        { kind: 'term', field: 'app', term: app },
      ],
    } as const;
    const found = await (await ColumnsQuery.of(query, turningOf())).entries(columns);
    return found.reduce((sum, word) => sum + word.toString(2).replaceAll('0', '').length, 0);
  };
  assert.equal(await of('app-7'), 1_000);
  assert.ok(source.bytesRead < 25_000, `${source.bytesRead} of ${bytes.length} bytes`);
  assert.equal(await of('app-x'), 0);
  const pod = (await columns.column('pod'))!;
  assert.equal(pod.valueCount, 20_000);
  const value = Buffer.from('app-19-00004e1f');
  assert.deepEqual(Buffer.from(pod.value(pod.numberOf(value))), value);
  for (const absent of ['', 'app', 'app-19-00004e1e', 'zzz']) {
    assert.equal(pod.numberOf(Buffer.from(absent)), 0, absent);
  }
  // Columns, places, and names from what share their beginnings.
  assert.ok(bytes.length / 20_000 < 20, `${bytes.length / 20_000} bytes a series`);
});

test('values that are too many to be sorted in one step are found, also a list of them', async () => {
  const columns = await SeriesColumns.open(sourceOf(fileOf(pods(70_000))));
  const pod = (await columns.column('pod'))!;
  const wanted = Buffer.from('app-7-00010f0b');
  assert.deepEqual(Buffer.from(pod.value(pod.numberOf(wanted))), wanted);
  assert.equal(pod.numberOf(Buffer.from('app-7-00010f0c')), 0);
  const several = Array.from({ length: 5_000 }, (_, i) => {
    const at = 13 * i;
    return `app-${at % 20}-${at.toString(16).padStart(8, '0')}`;
  });
  const query = { kind: 'regexp', field: 'pod', regexp: several.join('|') } as const;
  const found = await (await ColumnsQuery.of(query, turningOf())).entries(columns);
  assert.equal(popCount(found), 5_000);
});

test('names that few have take as much as those who have them', async () => {
  const plain = fileOf(pods(24_000)).length;
  const bytes = fileOf(
    pods(24_000).map((one, i) => ({
      ...one,
      tags: [...one.tags, { name: `zone-${i % 5_000}`, value: 'a' }],
    })),
  );
  assert.ok(bytes.length - plain < 24_000 * 5 + 5_000 * 50, `${bytes.length - plain} bytes more`);
  const source = sourceOf(bytes);
  const columns = await SeriesColumns.open(source);
  const query = { kind: 'field', field: 'zone-17' } as const;
  const found = await (await ColumnsQuery.of(query, turningOf())).entries(columns);
  assert.equal(popCount(found), 5);
  const names = await columns.entryNames();
  assert.deepEqual(decodeTags(names.of(5_017).tags).at(-1), { name: 'zone-17', value: 'a' });
  assert.ok(columns.memoryBytes < 20_000_000, `${columns.memoryBytes} bytes`);
});

test('a regexp that would hold up others is tested aside, and once for all queries', async () => {
  const series = pods(200).map((one, i) => ({
    ...one,
    tags: [{ name: 'path', value: `${'a'.repeat(30_000)}${i % 2 === 0 ? 'b' : 'c'}` }],
  }));
  const columns = await SeriesColumns.open(sourceOf(fileOf(series)));
  const aside = countedAside();
  const query = { kind: 'regexp', field: 'path', regexp: '(a|aa)*(b|a{900}b)' } as const;
  for (let round = 0; round < 2; round++) {
    const found = await (await ColumnsQuery.of(query, turningOf(aside.aside))).entries(columns);
    assert.equal(found[0]! >>> 0, 0x55555555);
  }
  assert.ok(aside.kinds.filter((kind) => kind === 'regexp').length === 1, String(aside.kinds));
});

test('a bad regexp is refused, also where nothing is left to match', async () => {
  const query = {
    kind: 'conjunction',
    queries: [
      { kind: 'term', field: 'absent', term: 'x' },
      { kind: 'regexp', field: 'a', regexp: '(' },
    ],
  } as const;
  await assert.rejects(ColumnsQuery.of(query, turningOf()), { code: 'BAD_REQUEST' });
});
