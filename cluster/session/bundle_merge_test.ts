import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chunkHeaders, encodeRawChunk } from '#engine/codec/chunk.ts';
import { emptyBundle, type SeriesBundle } from '#engine/codec/series_bundle.ts';
import { realEnv } from '#lib/env/real.ts';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { Turns } from '#lib/turns/turns.ts';
import { mergeBundles, type MergeLimits } from './bundle_merge.ts';
import { bundleOfSeries, textsOf } from './fakes_testing.ts';

const unlimited = { seriesMax: 0, bytesMax: 2 ** 32 - 1 };

function chunk(...seconds: number[]): Uint8Array {
  return encodeRawChunk({
    timestampNanos: BigInt64Array.from(seconds, (second) => BigInt(second) * 1_000_000_000n),
    values: Float64Array.from(seconds),
    version: 1,
  });
}

const merged = (bundles: readonly SeriesBundle[], limits: MergeLimits) =>
  mergeBundles(
    bundles,
    limits,
    Turns.of(realEnv.clock).begin(new AbortController().signal),
    unlimitedReadBytes,
  );

const join = (...chunks: Uint8Array[]) => new Uint8Array(Buffer.concat(chunks));

test('mergeBundles() gives the only bundle itself, and an empty one for none', async () => {
  const only = bundleOfSeries([{ job: 'x', chunks: chunk(1) }]);
  assert.equal((await merged([only], unlimited)).bundle, only);
  assert.equal((await merged([], unlimited)).bundle, emptyBundle);
});

test('mergeBundles() keeps equal chunks once, where they stand, and different ones all', async () => {
  const [early, late, later] = [chunk(1, 2), chunk(3, 4), chunk(3, 4, 5)];
  const { bundle, seriesMatched } = await merged(
    [
      bundleOfSeries([
        { job: 'same', chunks: join(early, late) },
        { job: 'ahead', chunks: join(early, late) },
      ]),
      bundleOfSeries([
        { job: 'ahead', chunks: join(early, later) },
        { job: 'only', chunks: late },
        { job: 'same', chunks: join(early, late) },
      ]),
      bundleOfSeries([{ job: 'ahead', chunks: join(later, early) }]),
    ],
    unlimited,
  );
  assert.equal(seriesMatched, 3);
  const texts = textsOf(bundle);
  assert.deepEqual(Object.keys(texts), ['same', 'ahead', 'only']);
  assert.equal(texts['same'], Buffer.from(join(early, late)).toString());
  assert.equal(texts['ahead'], Buffer.from(join(early, late, later)).toString());
  assert.equal(texts['only'], Buffer.from(late).toString());
  const counts = [...chunkHeaders(bundle.chunkData)].map(({ rowCount }) => rowCount);
  assert.deepEqual(counts, [2, 2, 2, 2, 3, 2]);
});

test('mergeBundles() keeps a malformed rest as it came', async () => {
  const torn = join(chunk(1), Uint8Array.of(255, 1, 2));
  const { bundle } = await merged(
    [
      bundleOfSeries([{ job: 'x', chunks: chunk(1) }]),
      bundleOfSeries([{ job: 'x', chunks: torn }]),
    ],
    unlimited,
  );
  assert.equal(textsOf(bundle)['x'], Buffer.from(torn).toString());
});

test('mergeBundles() tells explicit IDs with the same tags apart', async () => {
  const bundle = bundleOfSeries([{ job: 'x', chunks: chunk(1) }]);
  const withId = (id: string) => ({
    ...bundle,
    idScheme: Uint8Array.of(0),
    idData: new Uint8Array(Buffer.from(id)),
    idOffset: Uint32Array.of(0, id.length),
  });
  const { bundle: joined } = await merged(
    [bundle, withId('p'), withId('q'), withId('p')],
    unlimited,
  );
  assert.deepEqual([...joined.idScheme], [1, 0, 0]);
  assert.equal(Buffer.from(joined.idData).toString(), 'pq');
  assert.deepEqual([...joined.idOffset], [0, 0, 1, 2]);
});

test('mergeBundles() cuts at the series limit and refuses more bytes than allowed', async () => {
  const bundles = ['x', 'y', 'z'].map((job) => bundleOfSeries([{ job, chunks: chunk(1) }]));
  const cut = await merged(bundles, { ...unlimited, seriesMax: 2 });
  assert.deepEqual(Object.keys(textsOf(cut.bundle)), ['x', 'y']);
  assert.equal(cut.seriesMatched, 3);
  await assert.rejects(merged(bundles, { seriesMax: 0, bytesMax: 100 }), /larger than 100/);
});
