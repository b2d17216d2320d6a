/**
 * Bodies of requests that come compressed, decoded part by part as they are asked for: the whole of what a small body may come to
 * is nowhere in memory. What decoders need is bounded by their number; who comes when all are taken waits for its turn.
 */
import type { Transform } from 'node:stream';
import * as zlib from 'node:zlib';
import { freeBytes } from '#lib/env/in_flight/freed_bytes.ts';
import { badRequest, messageOf, shownText } from '#lib/errors.ts';
import { loopTurn } from '#lib/turns/turns.ts';
import { Places } from './places.ts';

/** Decoders at the same time. */
const decodersMax = 32;
/** Of what comes out of one at once. */
const chunkSize = 1 << 16;
/** The window of zstd, as a power of two: what its levels up to 15 use, and 2 MiB of memory. */
const zstdWindowLogMax = 21;
/** Of a body when it is decoded: nobody sends more by mistake. */
const decodedBytesMax: number = 1 << 30;
/** Of a body that is put together, in one turn of the loop: fresh memory costs more than the copy. */
const copiedAtOnceBytes: number = 2 << 20;

const decoders: ReadonlyMap<string, () => Transform> = new Map([
  ['gzip', () => zlib.createGunzip({ chunkSize })],
  ['x-gzip', () => zlib.createGunzip({ chunkSize })],
  ['deflate', () => zlib.createInflate({ chunkSize })],
  ['zstd', zstdDecoder],
]);

function zstdDecoder(): Transform {
  const params = { [zlib.constants.ZSTD_d_windowLogMax]: zstdWindowLogMax };
  return zlib.createZstdDecompress({ chunkSize, params });
}

const places = new Places(decodersMax);

/**
 * A body as it was before it was encoded.
 * @param encoding header `Content-Encoding`
 * @throws {TsdbError} BAD_REQUEST when the body is not encoded so, or too long, or when the encoding is another one
 */
export async function* decodedChunks(
  body: Uint8Array,
  encoding: string,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const name = encoding.trim().toLowerCase();
  if (name === '' || name === 'identity') {
    yield body;
    return;
  }
  const make = decoders.get(name);
  if (make === undefined) {
    throw badRequest(`header Content-Encoding: none of gzip, deflate and zstd: ${shownText(name)}`);
  }
  await places.take(signal);
  const decoder = make();
  try {
    decoder.end(body);
    const parts = decoder[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
    let length = 0;
    while (true) {
      const part = await parts.next().catch((error: unknown) => {
        throw badRequest(`cannot read the body as ${name}: ${messageOf(error)}`);
      });
      if (part.done === true) return;
      length += part.value.length;
      if (length > decodedBytesMax) {
        throw badRequest(`the body is longer than ${decodedBytesMax} bytes when it is decoded`);
      }
      yield part.value;
    }
  } finally {
    decoder.destroy();
    places.give();
  }
}

function decodedTooLong(bytesMax: number): Error {
  return badRequest(`the body is longer than ${bytesMax} bytes when it is decoded`);
}

/**
 * All of a body in one piece.
 * @param chunks nobody else's any more
 * @param tooLong makes the error for a longer one than `bytesMax`
 */
export async function wholeBody(
  chunks: AsyncIterable<Uint8Array>,
  bytesMax: number,
  tooLong: (bytesMax: number) => Error = decodedTooLong,
): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    length += chunk.length;
    if (length > bytesMax) throw tooLong(bytesMax);
    parts.push(chunk);
  }
  if (parts.length === 1) return parts[0]!;
  const whole = new Uint8Array(Buffer.allocUnsafeSlow(length).buffer);
  let at = 0;
  let rested = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
    freeBytes(part);
    if (at - rested < copiedAtOnceBytes) continue;
    rested = at;
    await loopTurn();
  }
  return whole;
}
