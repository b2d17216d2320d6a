/**
 * Makes what a store reads small for a snapshot: heads, which come row by row, become sealed
 * chunks.
 */
import { assert } from '#lib/assert.ts';
import { loadStoreKernel, type LoadedStoreKernel, wasmPageBytes, wasmPagesMin } from './kernel.ts';
import type { StoredChunks } from './rows.ts';

const memoryBytesMax = 2 ** 32;
const chunksAt = (wasmPagesMin - 1) * wasmPageBytes;
/** Room after each region for loads and stores beyond its end. */
const slackBytes = 256;
/** A memory that has grown beyond this is let go of. */
const keptBytesMax = 32 << 20;

/** Made at the first call; packing takes nothing from one call to the next. */
let workshop: LoadedStoreKernel | null = null;

/**
 * The same rows in fewer bytes: a head becomes what it would be sealed as.
 * @param chunks as `Store.read` gives them
 * @param keepsRowVersions a head keeps the versions of its rows; else they get the highest one
 */
export function packChunks(
  { chunkData, chunkOffset }: StoredChunks,
  keepsRowVersions: boolean,
): StoredChunks {
  workshop ??= loadStoreKernel(memoryBytesMax);
  const { memory, kernel } = workshop;
  kernel.setKeepsRowVersions(keepsRowVersions ? 1 : 0);
  const count = chunkOffset.length - 1;
  const lengthsAt = aligned(chunksAt + chunkData.length + slackBytes);
  const work = aligned(lengthsAt + 4 * count + slackBytes);
  const out = aligned(work + kernel.packWorkBytes.value + slackBytes);
  const end = out + chunkData.length + kernel.packRoomBytes.value + slackBytes;
  const missing = end - memory.buffer.byteLength;
  if (missing > 0) memory.grow(Math.ceil(missing / wasmPageBytes));
  new Uint8Array(memory.buffer, chunksAt, chunkData.length).set(chunkData);
  const lengths = new Uint32Array(memory.buffer, lengthsAt, count);
  for (let i = 0; i < count; i++) lengths[i] = chunkOffset[i + 1]! - chunkOffset[i]!;
  const outEnd = kernel.packChunks(chunksAt, lengthsAt, count, work, out) >>> 0;
  assert(outEnd !== 0, 'chunks of a store are whole');
  const packed = new Uint8Array(memory.buffer, out, outEnd - out).slice();
  const offsets = new Uint32Array(count + 1);
  for (let i = 0; i < count; i++) offsets[i + 1] = offsets[i]! + lengths[i]!;
  if (memory.buffer.byteLength > keptBytesMax) workshop = null;
  return { chunkData: packed, chunkOffset: offsets };
}

function aligned(address: number): number {
  return Math.ceil(address / 64) * 64;
}
