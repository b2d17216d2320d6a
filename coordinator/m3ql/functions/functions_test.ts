import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from '#lib/errors.ts';
import { ScriptData } from '../evaluate/script_testing.ts';
import { scriptFunctionList } from './table.ts';

const data = new ScriptData([
  'free{dc="a",disk="1"} 1 | 1 2 . 4',
  'free{dc="a",disk="2"} 10 | 10 20 30 40',
  'free{dc="b",disk="1"} 5 | 5 . . 8',
  'free{disk="9"} 3 | 3 3 3 3',
  'size{dc="a",disk="1"} 2 | 2 4 6 8',
  'size{dc="a",disk="2"} 0 | 100 0 100 100',
  'quota{dc="a"} 50 | 50 50 50 50',
  'gone{dc="a"} 7 |',
]);

async function answers(
  cases: readonly (readonly [script: string, lines: readonly string[]])[],
): Promise<void> {
  for (const [script, lines] of cases) assert.deepEqual(await data.lines(script), lines, script);
}

test('every name is one function alone', () => {
  const names = scriptFunctionList.flatMap(({ name, aliases }) => [name, ...aliases]);
  assert.equal(new Set(names).size, names.length);
});

test('what several series become has the tags that were asked for, a missing one is empty', () =>
  answers([
    ['fetch name:free | sum', ['{} 19 25 33 55']],
    ['fetch name:free | sum dc', ['{dc="a"} 11 22 30 44', '{dc="b"} 5 . . 8', '{} 3 3 3 3']],
    ['fetch name:free dc:* | max name dc', ['free{dc="a"} 10 20 30 40', 'free{dc="b"} 5 . . 8']],
    ['fetch name:free dc:a | count nothing', ['{} 2 2 2 2']],
    [
      'fetch name:free dc:b | sum dc (fetch name:size)',
      ['{dc="b"} 5 . . 8', '{dc="a"} 102 4 106 108'],
    ],
    ['fetch name:free dc:a | multiply dc', ['{dc="a"} 10 40 . 160']],
    ['fetch name:nothing | sum', []],
    ['fetch name:free disk:2 | diff 1 (fetch name:quota)', ['{} -41 -31 -21 -11']],
  ]));

test('series are put beside those with the same tags', () =>
  answers([
    [
      'fetch name:free | divideSeries (fetch name:size)',
      ['free{dc="a",disk="1"} 0.5 0.5 . 0.5', 'free{dc="a",disk="2"} 0.1 . 0.3 0.4'],
    ],
    ['fetch name:free disk:2 | divideSeries 10', ['free{dc="a",disk="2"} 1 2 3 4']],
    ['fetch name:free disk:2 | divideSeries 10 dc', ['free{dc="a",disk="2"} 1 2 3 4']],
    // One alone that has the tag is matched by it.
    [
      'fetch name:free dc:* | divideSeries (fetch name:quota) dc',
      ['free{dc="a",disk="1"} 0.02 0.04 . 0.08', 'free{dc="a",disk="2"} 0.2 0.4 0.6 0.8'],
    ],
    [
      'fetch name:free dc:a | asPercent (fetch name:size) dc',
      [
        'free{dc="a",disk="1"} 0.980392 50 . 3.7037',
        'free{dc="a",disk="2"} 9.80392 500 28.3019 37.037',
      ],
    ],
    [
      'fetch name:free dc:a | asPercent 50',
      ['free{dc="a",disk="1"} 2 4 . 8', 'free{dc="a",disk="2"} 20 40 60 80'],
    ],
    // Row by row, where the others have a value.
    [
      'fetch name:size | intersect (fetch name:free)',
      ['size{dc="a",disk="1"} 2 4 . 8', 'size{dc="a",disk="2"} 100 0 100 100'],
    ],
    ['fetch name:size | setDiff (fetch name:free)', ['size{dc="a",disk="1"} . . 6 .']],
    [
      'fetch name:size | setDiff (fetch name:free dc:b) dc',
      ['size{dc="a",disk="1"} 2 4 6 8', 'size{dc="a",disk="2"} 100 0 100 100'],
    ],
    ['fetch name:nothing | intersect (fetch name:free)', []],
  ]));

test('a series has one divisor alone', async () => {
  await assert.rejects(
    data.lines('fetch name:free | divideSeries (fetch name:size) dc'),
    (error) => {
      assert.ok(error instanceof TsdbError && error.code === 'BAD_REQUEST');
      assert.match(
        error.message,
        /^cannot evaluate divideSeries: divisor has 2 series for one: free;dc=a;disk=1;/,
      );
      return true;
    },
  );
});

test('a series without a value in the time that is read is none', () =>
  answers([
    ['fetch name:gone | fallbackSeries 1', ['1{} 1 1 1 1']],
    ['fetch name:gone | timeshift 1m', ['gone{dc="a"} 7 . . .']],
    ['fetch name:gone | moving 2m sum', ['gone{dc="a"} 7 . . .']],
    ['fetch name:free disk:2 | timeshift -1m', ['free{dc="a",disk="2"} 10 10 20 30']],
    ['fetch name:free disk:2 | timeshift "+1m"', ['free{dc="a",disk="2"} 20 30 40 .']],
  ]));

test('names change nothing but the name, and what comes of it', () =>
  answers([
    ['fetch name:free disk:9 | alias x | sum name', ['x{} 3 3 3 3']],
    ['fetch name:free disk:9 | aliasByTags dc name disk', ['.free.9{disk="9"} 3 3 3 3']],
    ['fetch name:free disk:9 | showTags', ['name:free disk:9{disk="9"} 3 3 3 3']],
    ['fetch name:free disk:9 | showTags false disk dc', ['9{disk="9"} 3 3 3 3']],
    ['fetch name:free | excludeByTag dc *', ['free{disk="9"} 3 3 3 3']],
    [
      'fetch name:free | excludeByTag dc "" | excludeByTag disk 1',
      ['free{dc="a",disk="2"} 10 20 30 40'],
    ],
    ['fetch name:free | excludeByTag name f*', []],
  ]));

test('functions of Graphite put no tags of theirs beside those of the data', () =>
  answers([
    [
      'fetch name:free disk:2 | scale 2 | offset 1 | perSecond | transformNull | isNonNull | summarize 1m | integral',
      ['free{dc="a",disk="2"} 1 2 3 4'],
    ],
  ]));

test('a comparison leaves stretches, and sustain those that go on for so long', () =>
  answers([
    ['fetch name:free disk:2 | > 10 | sustain 2m', ['free{dc="a",disk="2"} . . 30 40']],
    ['fetch name:free disk:1 dc:a | sustain 2m', ['free{dc="a",disk="1"} . 2 . .']],
    ['fetch name:free disk:1 dc:a | sustain 10s', ['free{dc="a",disk="1"} 1 2 . 4']],
    ['fetch name:free disk:2 | > 40', []],
  ]));

const histograms = new ScriptData([
  'took{bucketid="1",bucket="-10-0",op="r"} 1 0 0',
  'took{bucketid="2",bucket="0-10",op="r"} 1 0 4',
  'took{bucketid="4",bucket="20-30",op="r"} 2 0 .',
  'took{bucketid="1",bucket="1s-1m30s",op="w"} 4 4 4',
  'took{bucketid="5",bucket="everything",op="w"} 9 9 9',
  'le_bucket{le="1"} 5 6 0',
  'le_bucket{le="2"} 10 4 0',
  'le_bucket{le="+Inf"} 10 10 0',
  'le_bucket{le="other"} 10 10 0',
]);

test('buckets of M3 count what is between their ends, also where some are missing', async () => {
  const p50 = 'fetch name:took | histogramPercentile bucketid bucket 50';
  assert.deepEqual(await histograms.lines(p50), [
    'took{op="r"} 10 . 5',
    'took{op="w"} 45.5 45.5 45.5',
  ]);
  const p75 = 'fetch name:took op:r | histogramPercentile bucketid bucket 75';
  assert.deepEqual(await histograms.lines(p75), ['took{op="r"} 25 . 7.5']);
  const share = 'fetch name:took op:r | histogramCDF bucketid bucket 25';
  assert.deepEqual(await histograms.lines(share), ['took{op="r"} 0.75 . 1']);
});

test('buckets of Prometheus are made to rise, and others are left out', async () => {
  assert.deepEqual(await histograms.lines('fetch name:le_bucket | promHistogramPercentile 50'), [
    'le_bucket{} 1 0.833333 .',
  ]);
});

test('globs that would hold up others are refused', async () => {
  const value = 'ab'.repeat(27_000);
  for (const [glob, reason] of [
    [`*a${'?'.repeat(8_000)}`, /cannot compile regexp: takes too long: \.\*a/],
    [`*a${'?'.repeat(500)}`, /cannot match regexp: takes too long for a text of 54000 characters/],
  ] as const) {
    await assert.rejects(
      data.lines(`constantLine 1 | alias "${value}" | excludeByTag name "${glob}"`),
      (error) =>
        error instanceof TsdbError && error.code === 'BAD_REQUEST' && reason.test(error.message),
    );
  }
});
