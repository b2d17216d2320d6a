import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  encodeRemoteWrite,
  encodeRemoteWriteV2,
  type SeriesToWrite,
} from '#engine/write_decoder/remote_write_testing.ts';
import { decodeSnappy, encodeSnappy } from '#engine/write_decoder/snappy.ts';
import { realEnv } from '#lib/env/real.ts';
import { xxhash64 } from '#lib/hashing/xxhash64.ts';
import { Turns } from '#lib/turns/turns.ts';
import { shadowBody } from './shadow.ts';

const shadowOf = (body: Uint8Array, version: 1 | 2, share: number): Promise<Uint8Array | null> =>
  shadowBody(body, version, share, Turns.of(realEnv.clock).begin(new AbortController().signal));

/** Also with labels that are not in order, and texts that are long. */
const allSeries: readonly SeriesToWrite[] = Array.from({ length: 2_000 }, (_, i) => {
  const labels = { __name__: `m${i % 7}`, job: 'a', long: 'x'.repeat(i % 90), row: String(i) };
  const tags = Object.entries(labels).map(([name, value]) => ({ name, value }));
  return {
    tags: i % 5 === 0 ? tags.toReversed() : tags,
    samples: [{ timestampMillis: 1_700_000_000_000 + i, value: i }],
  };
});

/** M3's words for it: xxhash of the labels in order, a share of ten thousand. */
function isTaken({ tags }: SeriesToWrite, share: number): boolean {
  const text = tags
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, value }) => `${name}=${value}`)
    .join(',');
  return Number(xxhash64(new TextEncoder().encode(text)) % 10_000n) < Math.trunc(share * 10_000);
}

const bytesOf = (body: Uint8Array | null): Uint8Array | null =>
  body === null ? null : decodeSnappy(body, 1 << 25);

test('a share of series is that of their hashes, in version 1', async () => {
  for (const share of [0.0001, 0.1, 0.5, 0.9999, 1]) {
    const taken = allSeries.filter((series) => isTaken(series, share));
    const expected = taken.length === 0 ? null : encodeRemoteWrite(taken);
    const body = await shadowOf(encodeRemoteWrite(allSeries), 1, share);
    assert.deepEqual(bytesOf(body), bytesOf(expected), `${share}`);
  }
  const half = allSeries.filter((series) => isTaken(series, 0.5)).length;
  assert.ok(half > 900 && half < 1_100, `${half}`);
});

test('the same series are taken in version 2, whose texts all go along', async () => {
  const raw = bytesOf(encodeRemoteWriteV2(allSeries))!;
  const shadow = bytesOf(await shadowOf(encodeRemoteWriteV2(allSeries), 2, 0.3))!;
  const taken = allSeries.filter((series) => isTaken(series, 0.3));
  // By their values, eight bytes each: i is at its place of all series.
  const valuesIn = (bytes: Uint8Array): number =>
    allSeries.filter(({ samples }) => {
      const value = Buffer.from(Float64Array.of(samples[0]!.value as number).buffer);
      return Buffer.from(bytes).includes(
        Buffer.concat([Buffer.from([9]), value, Buffer.from([16])]),
      );
    }).length;
  assert.equal(valuesIn(raw), allSeries.length);
  assert.equal(valuesIn(shadow), taken.length);
  const textsBytes = raw.length - shadow.length;
  assert.ok(textsBytes > 0);
  assert.equal(await shadowOf(encodeRemoteWriteV2(allSeries), 2, 0), null);
});

test('nothing is left of a share of nothing, and of bodies without series', async () => {
  assert.equal(await shadowOf(encodeRemoteWrite(allSeries), 1, 0), null);
  const families = [{ name: 'm', type: 1, help: 'h', unit: '' }];
  assert.equal(await shadowOf(encodeRemoteWrite([], families), 1, 1), null);
});

test('bytes that are no body are refused', async () => {
  for (const bytes of [[10, 200], [10, 2, 10, 9], [0], [12]]) {
    const body = encodeSnappy(Uint8Array.from(bytes));
    await assert.rejects(shadowOf(body, 1, 0.5), { code: 'BAD_REQUEST' }, `${bytes}`);
  }
  await assert.rejects(shadowOf(Uint8Array.of(9, 9), 1, 0.5), /snappy/);
});

test('a series that is refused anyway is left out: of texts that are not there, or of too many', async () => {
  // A label of which the table has no text, alone and beside a good series.
  const unknown = Uint8Array.of(42, 4, 10, 2, 50, 51);
  assert.equal(await shadowOf(encodeSnappy(unknown), 2, 1), null);
  const good = bytesOf(encodeRemoteWriteV2([allSeries[0]!]))!;
  const both = encodeSnappy(Buffer.concat([good, unknown]));
  assert.deepEqual(bytesOf(await shadowOf(both, 2, 1)), new Uint8Array(good));
  const many = Array.from({ length: 1_025 }, (_, i) => ({ name: `l${i}`, value: 'x' }));
  const long = [{ name: 'l', value: 'x'.repeat(65_535) }];
  for (const tags of [many, long]) {
    const body = encodeRemoteWrite([{ tags, samples: [] }, allSeries[0]!]);
    assert.deepEqual(
      bytesOf(await shadowOf(body, 1, 1)),
      bytesOf(encodeRemoteWrite([allSeries[0]!])),
    );
  }
});
