import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from '#test/property_testing.ts';
import { emptyBundle, type SeriesBundle } from '#engine/codec/series_bundle.ts';
import { BundleJoiner, bundleParts } from './bundle_pages.ts';

const part = fc.uint8Array({ maxLength: 40 });
const bundles = fc
  .array(fc.record({ tags: part, id: part, chunks: fc.uint8Array({ maxLength: 200 }) }), {
    maxLength: 12,
  })
  .map((series): SeriesBundle => {
    const column = (parts: Uint8Array[]) => {
      let at = 0;
      return {
        data: new Uint8Array(Buffer.concat(parts)),
        offset: Uint32Array.from([0, ...parts.map(({ length }) => (at += length))]),
      };
    };
    const tags = column(series.map((each) => each.tags));
    const ids = column(series.map((each) => each.id));
    const chunks = column(series.map((each) => each.chunks));
    return {
      seriesCount: series.length,
      tagsData: tags.data,
      tagsOffset: tags.offset,
      idScheme: Uint8Array.from(series, (_, i) => i % 4),
      idData: ids.data,
      idOffset: ids.offset,
      chunkData: chunks.data,
      chunkOffset: chunks.offset,
    };
  });

test('parts are as small as asked for, and joined they are the bundle again', () => {
  fc.assert(
    fc.property(bundles, fc.integer({ min: 1, max: 400 }), (bundle, bytesMax) => {
      const joiner = new BundleJoiner();
      for (const each of bundleParts(bundle, bytesMax)) {
        const { seriesCount, tagsData, idData, chunkData } = each.bundle;
        const size = tagsData.length + idData.length + chunkData.length;
        // One series' tags and ID and one chunk byte are never cut.
        assert.ok(size <= bytesMax || (seriesCount === 1 && chunkData.length <= 1) || size === 0);
        joiner.add(each);
      }
      assert.deepEqual(joiner.finish(), bundle);
    }),
    { numRuns: 500 },
  );
});

test('a bundle that fits is one part, an empty one too', () => {
  assert.equal([...bundleParts(emptyBundle, 1)].length, 1);
  const joiner = new BundleJoiner();
  for (const each of bundleParts(emptyBundle, 1)) joiner.add(each);
  assert.deepEqual(joiner.finish(), emptyBundle);
});

test('a part whose columns do not agree is refused by column', () => {
  const add = (more: Partial<SeriesBundle>, continues = false) =>
    new BundleJoiner().add({ bundle: { ...emptyBundle, ...more }, continues });
  assert.throws(() => add({ seriesCount: 1 }), /id_scheme/);
  assert.throws(() => add({ tagsOffset: Uint32Array.of(1) }), /tags_offset/);
  assert.throws(() => add({ chunkData: new Uint8Array(3) }), /chunk_offset/);
  assert.throws(() => add({ idOffset: new Uint32Array(0) }), /id_offset/);
  const one = { seriesCount: 1, idScheme: new Uint8Array(1), idOffset: new Uint32Array(2) };
  assert.throws(
    () => add({ ...one, chunkOffset: new Uint32Array(2), tagsOffset: Uint32Array.of(5, 0) }),
    /tags_offset/,
  );
  assert.throws(() => add({}, true), /no series to continue/);
});
