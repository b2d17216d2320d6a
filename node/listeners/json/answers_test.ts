import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bundleOfSeries } from '#cluster/session/fakes_testing.ts';
import { encodeFloatChunk } from '#engine/codec/codec_twin.ts';
import { memoriesMade } from '#engine/store/decoders_testing.ts';
import { aggregateAnswer, fetchAnswer, queryAnswer } from './answers.ts';

const secondNanos = 1_000_000_000n;
const range = { startNanos: 0n, endNanos: 1_000_000n * secondNanos };

/** So many rows, one a second, the value that of the second. */
function chunksOf(rowCount: number): Uint8Array {
  const chunks: Uint8Array[] = [];
  for (let first = 0; first < rowCount; first += 480) {
    const seconds = Array.from({ length: Math.min(480, rowCount - first) }, (_, i) => first + i);
    chunks.push(
      encodeFloatChunk({
        timestampNanos: BigInt64Array.from(seconds, (second) => BigInt(second) * secondNanos),
        values: Float64Array.from(seconds),
        version: 1,
      }),
    );
  }
  return Buffer.concat(chunks);
}

function partsOf(answer: Iterable<Uint8Array>): { json: any; longest: number; count: number } {
  const parts = [...answer];
  const text = Buffer.concat(parts).toString();
  assert.ok(text.endsWith('\n'));
  const longest = Math.max(...parts.map(({ length }) => length));
  return { json: JSON.parse(text), longest, count: parts.length };
}

const datapoints = (count: number): object[] =>
  Array.from({ length: count }, (_, second) => ({ timestamp: second, value: second }));

test('a series of many rows is told in parts, and is the same as in one', () => {
  for (const rowCount of [0, 1, 5_000, 40_000]) {
    const bundle = bundleOfSeries([
      { job: 'short', chunks: chunksOf(2) },
      { job: 'long', chunks: chunksOf(rowCount) },
    ]);
    const options = { resultTimeType: 'UNIX_SECONDS', withData: true, schemas: null } as const;
    const query = partsOf(queryAnswer(bundle, true, range, options));
    const [short, long] = query.json.results;
    assert.deepEqual(short.datapoints, datapoints(2));
    assert.deepEqual(long.datapoints, rowCount === 0 ? null : datapoints(rowCount));
    const only = bundleOfSeries([{ job: 'long', chunks: chunksOf(rowCount) }]);
    const fetched = { bundle: only, warnings: [] };
    const fetch = partsOf(fetchAnswer(fetched, range, 'UNIX_SECONDS', null));
    assert.deepEqual(fetch.json, { datapoints: datapoints(rowCount) });
    // Of 40,000 rows some 1.3 MB, of which no part has more than some thousands.
    assert.ok(Math.max(query.longest, fetch.longest) < 400_000, `${query.longest} bytes`);
    if (rowCount === 40_000) assert.ok(Math.min(query.count, fetch.count) > 10);
  }
  const withoutData = { resultTimeType: 'UNIX_SECONDS', withData: false, schemas: null } as const;
  const bundle = bundleOfSeries([{ job: 'a', chunks: new Uint8Array(0) }]);
  const { json } = partsOf(queryAnswer(bundle, false, range, withoutData));
  assert.deepEqual([json.results[0].datapoints, json.exhaustive], [null, false]);
});

test('an answer that is over, or given up, leaves the memory of its decoder to the next one', async () => {
  const bundle = bundleOfSeries([{ job: 'a', chunks: chunksOf(8_000) }]);
  const options = { resultTimeType: 'UNIX_SECONDS', withData: true, schemas: null } as const;
  const fetched = { bundle, warnings: [] };
  const made = await memoriesMade(() => {
    for (let i = 0; i < 20; i++) {
      for (const answer of [
        queryAnswer(bundle, true, range, options),
        fetchAnswer(fetched, range, 'UNIX_SECONDS', null),
      ]) {
        if (i % 2 === 0) for (const part of answer) assert.ok(part.length > 0);
        else {
          answer.next();
          answer.return();
        }
      }
    }
  });
  assert.ok(made <= 1, `${made} memories`);
});

test('names and values of tags are told in parts', () => {
  const values = Array.from({ length: 50_000 }, (_, i) => `v"${i}`);
  const tags = [
    { name: 'a', values },
    { name: 'b', values: [] },
  ];
  const all = partsOf(aggregateAnswer(tags, false, true));
  const shown = values.map((tagValue) => ({ tagValue }));
  assert.deepEqual(all.json, {
    results: [
      { tagName: 'a', tagValues: shown },
      { tagName: 'b', tagValues: [] },
    ],
    exhaustive: true,
  });
  assert.ok(all.count > 10 && all.longest < 70_000);
  const names = partsOf(aggregateAnswer(tags, true, false));
  assert.deepEqual(names.json, {
    results: [{ tagName: 'a' }, { tagName: 'b' }],
    exhaustive: false,
  });
});
