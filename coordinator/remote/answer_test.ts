import assert from 'node:assert/strict';
import { test } from 'node:test';
import { turnsOf, assertNotHeld } from '#engine/aside/turning_testing.ts';
import { encodeRawChunk } from '#engine/codec/chunk.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { memoriesMade } from '#engine/store/decoders_testing.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { Turns } from '#lib/turns/turns.ts';
import { encodeTags } from '#lib/tags.ts';
import { type ReadBytes, unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { Pacer } from '../promql/rows/pacer.ts';
import { encodeChunkedFrames, encodeReadResult } from './answer.ts';

/** Rows of a chunk. */
const chunkRows = 4_096;

/** One series with rows at 0, 1 s, 2 s and so on, their values as random as they may be. */
function bundleOf(rows: number): SeriesBundle {
  const tagsData = encodeTags([{ name: '__name__', value: 'm' }]);
  const chunks: Uint8Array[] = [];
  for (let first = 0; first < rows; first += chunkRows) {
    const length = Math.min(chunkRows, rows - first);
    chunks.push(
      encodeRawChunk({
        timestampNanos: BigInt64Array.from(
          { length },
          (_, i) => BigInt(first + i) * 1_000_000_000n,
        ),
        values: Float64Array.from({ length }, (_, i) => Math.sin(first + i)),
        version: 1,
      }),
    );
  }
  const chunkData = new Uint8Array(Buffer.concat(chunks));
  return {
    seriesCount: 1,
    tagsData,
    tagsOffset: Uint32Array.of(0, tagsData.length),
    idScheme: new Uint8Array(1),
    idData: new Uint8Array(0),
    idOffset: new Uint32Array(2),
    chunkData,
    chunkOffset: Uint32Array.of(0, chunkData.length),
  };
}

const turns = Turns.of(realEnv.clock);
const range = { startNanos: 0n, endNanos: 2n ** 62n };
const never = new AbortController().signal;

const pacerOf = (signal: AbortSignal, samplesMax: number): Pacer =>
  new Pacer(turns.begin(signal), samplesMax, unlimitedReadBytes);

test('encodeReadResult() gives others a turn now and then, and ends when it is cancelled', async () => {
  const bundle = bundleOf(60_000);
  const encode = async (count: number, pacer: Pacer): Promise<number> => {
    let length = 0;
    for (let i = 0; i < count; i++) {
      for (const piece of await encodeReadResult(bundle, range, pacer)) length += piece.length;
    }
    return length;
  };
  const cancelled = new AbortController();
  setImmediate(() => cancelled.abort(new TsdbError('CANCELLED', 'the client left')));
  const pacer = pacerOf(cancelled.signal, 2_000_000);
  await assert.rejects(encode(20, pacer), { code: 'CANCELLED' });
  assert.ok(pacer.samples < 1_200_000, `${pacer.samples}`);
  const { signal } = new AbortController();
  assert.ok((await encode(15, pacerOf(signal, 900_000))) > 900_000 * 2);
  await assert.rejects(encode(20, pacerOf(signal, 900_000)), {
    code: 'BAD_REQUEST',
    kind: 'execution',
  });
});

/** Of which nothing is refused; the most that was taken at a time, and what still is. */
function countedMemory(): { readonly memory: ReadBytes; most: number; held: number } {
  const counted = {
    most: 0,
    held: 0,
    memory: {
      tryGrow: (bytes: number) => {
        counted.held += bytes;
        counted.most = Math.max(counted.most, counted.held);
        return true;
      },
      grow: async () => {},
      give: (bytes: number) => {
        counted.held -= bytes;
      },
    },
  };
  return counted;
}

test('a long series is answered in turns with others, and takes memory while it is made', async () => {
  const rows = 1_500_000;
  const bundle = bundleOf(rows);
  const ofSamples = countedMemory();
  const samples = await turnsOf(
    encodeReadResult(bundle, range, new Pacer(turns.begin(never), rows, ofSamples.memory)),
  );
  assertNotHeld(samples, 'samples');
  assert.ok(samples.turns > 10, `${samples.turns}`);
  const length = samples.answer.reduce((sum, piece) => sum + piece.length, 0);
  assert.ok(length > 15 * rows);
  assert.ok(ofSamples.most >= 2 * length * 0.99, `${ofSamples.most} of ${length}`);
  assert.ok(Math.abs(ofSamples.held - length) < 100_000, `${ofSamples.held} of ${length}`);

  const ofChunks = countedMemory();
  const lengths: number[] = [];
  const send = async (): Promise<void> => {
    const pacer = new Pacer(turns.begin(never), Number.POSITIVE_INFINITY, ofChunks.memory);
    for await (const piece of encodeChunkedFrames(bundle, range, 0, pacer)) {
      lengths.push(piece.length);
    }
  };
  const chunks = await turnsOf(send());
  assertNotHeld(chunks, 'chunks');
  assert.ok(chunks.turns > 10, `${chunks.turns}`);
  const [longest] = lengths.toSorted((a, b) => b - a);
  assert.ok(ofChunks.most >= 2 * longest! * 0.99, `${ofChunks.most} of ${longest}`);
  assert.equal(ofChunks.held, 0);
});

test('an answer that is over, or given up, leaves the memory of its decoder to the next one', async () => {
  const bundle = bundleOf(20_000);
  const made = await memoriesMade(async () => {
    for (let i = 0; i < 20; i++) {
      await encodeReadResult(bundle, range, pacerOf(never, 20_000));
      for await (const _ of encodeChunkedFrames(bundle, range, 0, pacerOf(never, 0))) {
        if (i % 2 === 0) break;
      }
    }
  });
  assert.ok(made <= 1, `${made} memories`);
});
