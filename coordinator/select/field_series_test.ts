/** Messages taken apart: what it takes of a read's memory and of the loop, and rows that another kind beats. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bundleBytes } from '#cluster/node/bundle_pages.ts';
import { assertNotHeld, turnsOf } from '#engine/aside/turning_testing.ts';
import { chunkHeaders, encodeRawChunk, kindsAll } from '#engine/codec/chunk.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { MessageEncoder } from '#engine/messages/canonical.ts';
import { numericFieldsOf } from '#engine/messages/numeric_fields.ts';
import { wireFromJson } from '#engine/messages/json.ts';
import { type MessageType, readSchema } from '#engine/messages/schema.ts';
import { decodeChunk } from '#engine/store/chunk_merge.ts';
import { encodeTypedRows } from '#engine/typed/codec.ts';
import { realEnv } from '#lib/env/real.ts';
import { ReadMemory } from '#lib/read_memory/read_memory.ts';
import { decodeTags, encodeTags } from '#lib/tags.ts';
import { Turns } from '#lib/turns/turns.ts';
import { fieldSeries } from './field_series.ts';

const { signal } = new AbortController();
const second = 1_000_000_000n;
const start = 1_800_000_000n * second;
const layout = 5;
const encoder = new MessageEncoder();
const everything = { startNanos: start, endNanos: start + 1_000_000n * second };

const typeOf = (fields: string): MessageType =>
  readSchema({ 'm.proto': `syntax = "proto3"; message M { ${fields} }` }, 'M');

/** @param version of all rows, in 1/64 milliseconds */
function messagesChunk(
  type: MessageType,
  rows: readonly (readonly [at: number, json: object])[],
  version: number,
): Uint8Array {
  const values = rows.map(([, json]) =>
    encoder.encode(wireFromJson(json as {}, type), type, layout),
  );
  const valueBytes = new Uint8Array(Buffer.concat(values));
  let end = 0;
  return encodeTypedRows({
    timestampNanos: BigInt64Array.from(rows, ([at]) => start + BigInt(at) * second),
    valueBytes,
    valueEnds: Uint32Array.from(values, ({ length }) => (end += length)),
    rowVersions: new Float64Array(rows.length).fill(version),
    startNanos: null,
  });
}

function bundleOf(chunks: readonly Uint8Array[]): SeriesBundle {
  const tagsData = encodeTags([{ name: '__name__', value: 'reading' }]);
  const chunkData = new Uint8Array(Buffer.concat(chunks));
  return {
    ...{ seriesCount: 1, tagsData, tagsOffset: Uint32Array.of(0, tagsData.length) },
    ...{ idScheme: new Uint8Array(1), idData: new Uint8Array(0), idOffset: new Uint32Array(2) },
    ...{ chunkData, chunkOffset: Uint32Array.of(0, chunkData.length) },
  };
}

async function reservationFor(bundle: SeriesBundle, bytesMax: number) {
  const memory = new ReadMemory({ clock: realEnv.clock, bytesMax, allowance: 'reads may take' });
  const reservation = memory.begin();
  await reservation.grow(bundleBytes(bundle), signal);
  return reservation;
}

const wide = typeOf(Array.from({ length: 4_000 }, (_, i) => `double f${i} = ${i + 1};`).join(' '));
/** Of messages that have one of all their fields: the others are zero. */
const sparse = Array.from({ length: 4_000 }, (_, at) => [at, { f0: at }] as const);

test('fields that are zero in all rows are counted as they are made, and a read with more than it may take is refused', async () => {
  const bundle = bundleOf([messagesChunk(wide, sparse, 7e12)]);
  const fields = numericFieldsOf(wide);
  using reservation = await reservationFor(bundle, 8 << 20);
  const limits = { seriesMax: 0, requireExhaustive: true, memory: reservation };
  const work = Turns.of(realEnv.clock).begin(signal);
  const heapBefore = process.memoryUsage().arrayBuffers;
  await assert.rejects(
    fieldSeries(
      bundle,
      { fields, withOthers: true },
      { typeOf: () => wide, version: 0 },
      everything,
      limits,
      work,
    ),
    {
      code: 'BAD_REQUEST',
      message: /the answer takes \d+ bytes.*ask for fewer series or less time/,
    },
  );
  assert.ok(process.memoryUsage().arrayBuffers - heapBefore < 64 << 20);
});

test('what is taken for fields is what their series take, and nothing holds the loop', async () => {
  const bundle = bundleOf([messagesChunk(wide, sparse, 7e12)]);
  const fields = numericFieldsOf(wide).slice(0, 500);
  using reservation = await reservationFor(bundle, 256 << 20);
  const limits = { seriesMax: 0, requireExhaustive: true, memory: reservation };
  const work = Turns.of(realEnv.clock).begin(signal);
  const seen = await turnsOf(
    fieldSeries(
      bundle,
      { fields, withOthers: true },
      { typeOf: () => wide, version: 0 },
      everything,
      limits,
      work,
    ),
  );
  const { bundle: made } = seen.answer;
  assert.equal(made.seriesCount, 500);
  assert.equal(reservation.bytes, bundleBytes(made));
  assert.ok(seen.turns >= 3, `${seen.turns}`);
  assertNotHeld(seen);
});

test('more fields than series are allowed end a read at the limit', async () => {
  const bundle = bundleOf([messagesChunk(wide, sparse, 7e12)]);
  const selection = { fields: numericFieldsOf(wide), withOthers: true };
  using reservation = await reservationFor(bundle, 8 << 20);
  const read = (requireExhaustive: boolean) =>
    fieldSeries(
      bundle,
      selection,
      { typeOf: () => wide, version: 0 },
      everything,
      { seriesMax: 10, requireExhaustive, memory: reservation },
      Turns.of(realEnv.clock).begin(signal),
    );
  const { bundle: cut, isCut } = await read(false);
  assert.deepEqual([cut.seriesCount, isCut], [10, true]);
  await reservation.grow(bundleBytes(bundle), signal);
  await assert.rejects(read(true), /series_limit=10, series_matched=at least 11/);
});

test('a message that a float was written over is no row of its fields, and a float that a message was written over is none', async () => {
  const type = typeOf('double load = 1;');
  const floats = encodeRawChunk({
    timestampNanos: BigInt64Array.from([0, 1, 2, 3], (at) => start + BigInt(at) * second),
    values: Float64Array.of(100, 101, 102, 103),
    version: 7e12,
  });
  const chunks = [
    messagesChunk(
      type,
      [
        [1, { load: 11 }],
        [2, { load: 12 }],
      ],
      7e12 + 1,
    ),
    messagesChunk(
      type,
      [
        [3, { load: 13 }],
        [4, { load: 14 }],
      ],
      7e12 - 1,
    ),
    floats,
  ];
  const { bundle } = await fieldSeries(
    bundleOf(chunks),
    { fields: numericFieldsOf(type), withOthers: true },
    { typeOf: () => type, version: 0 },
    everything,
    { seriesMax: 0, requireExhaustive: true },
    Turns.of(realEnv.clock).begin(signal),
  );
  const rows = Array.from({ length: bundle.seriesCount }, (_, i) => {
    const tags = decodeTags(
      bundle.tagsData.subarray(bundle.tagsOffset[i]!, bundle.tagsOffset[i + 1]!),
    );
    const own = bundle.chunkData.subarray(bundle.chunkOffset[i]!, bundle.chunkOffset[i + 1]!);
    let at = 0;
    const values = [...chunkHeaders(own, 0, own.length, kindsAll)].flatMap(({ end }) => {
      const { timestampNanos, values: some } = decodeChunk(own.subarray(at, end));
      at = end;
      return Array.from(timestampNanos, (nanos, row) => [
        Number((nanos - start) / second),
        some[row],
      ]);
    });
    return [tags.find(({ name }) => name === '__field__')?.value ?? '', values];
  });
  assert.deepEqual(rows, [
    [
      '',
      [
        [0, 100],
        [3, 103],
      ],
    ],
    [
      'load',
      [
        [1, 11],
        [2, 12],
        [4, 14],
      ],
    ],
  ]);
});
