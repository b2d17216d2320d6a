import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeRawChunk } from '#engine/codec/chunk.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { Turns } from '#lib/turns/turns.ts';
import { encodeTags } from '#lib/tags.ts';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { Pacer } from '../promql/rows/pacer.ts';
import { encodeReadResult } from './answer.ts';

/** One series with rows at 0, 1 s, 2 s and so on. */
function bundleOf(rows: number): SeriesBundle {
  const tagsData = encodeTags([{ name: '__name__', value: 'm' }]);
  const chunkData = encodeRawChunk({
    timestampNanos: BigInt64Array.from({ length: rows }, (_, i) => BigInt(i) * 1_000_000_000n),
    values: new Float64Array(rows),
    version: 1,
  });
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

const pacerOf = (signal: AbortSignal, samplesMax: number): Pacer =>
  new Pacer(turns.begin(signal), samplesMax, unlimitedReadBytes);

test('encodeReadResult() gives others a turn now and then, and ends when it is cancelled', async () => {
  const bundle = bundleOf(60_000);
  const range = { startNanos: 0n, endNanos: 2n ** 62n };
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
