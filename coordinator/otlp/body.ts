/** Bodies of OTLP as protobuf, however they come. */
import { wireFromOtlpJson } from '#engine/otlp/wire/json.ts';
import { badRequest } from '#lib/errors.ts';
import { freeBytes } from '#lib/env/in_flight/freed_bytes.ts';
import { parseJson } from '#lib/json/text.ts';
import { ownTurn } from '#lib/turns/turns.ts';
import { decodedChunks, wholeBody } from '../http/decoding.ts';
import { Places } from '../http/places.ts';

/** A body when it is decoded. */
export const otlpBytesMax: number = 32 << 20;
/** Of JSON, whose values are parsed at once. */
const jsonBytesMax: number = 8 << 20;
const jsonValuesMax = 250_000;
/** Compressed bodies, and those that are JSON, that are held decoded at the same time; others wait. */
const decodedMax = 8;

const places = new Places(decodedMax);

export interface EncodedBody {
  readonly bytes: Uint8Array;
  /** '' for none. */
  readonly encoding: string;
  readonly isJson: boolean;
}

/**
 * Gives the message to `use`, and keeps it until that is done.
 * @throws {TsdbError} BAD_REQUEST when it cannot be read
 */
export async function withMessage<Result>(
  { bytes, encoding, isJson }: EncodedBody,
  signal: AbortSignal,
  use: (message: Uint8Array) => Promise<Result>,
): Promise<Result> {
  const bytesMax = isJson ? jsonBytesMax : otlpBytesMax;
  const isPlain = encoding === '' || encoding.toLowerCase() === 'identity';
  if (isPlain && !isJson) {
    if (bytes.length > bytesMax) throw tooLong(bytesMax);
    return useAndFree(bytes, use);
  }
  await places.take(signal);
  try {
    const message = await wholeBody(decodedChunks(bytes, encoding, signal), bytesMax, tooLong);
    if (!isJson) return await useAndFree(message, use);
    await ownTurn();
    const value = parseJson(message, { valuesMax: jsonValuesMax });
    await ownTurn();
    return await use(wireFromOtlpJson(value));
  } finally {
    places.give();
  }
}

async function useAndFree<Result>(
  message: Uint8Array,
  use: (message: Uint8Array) => Promise<Result>,
): Promise<Result> {
  try {
    return await use(message);
  } finally {
    freeBytes(message);
  }
}

function tooLong(bytesMax: number): Error {
  return badRequest(`cannot read OTLP body: longer than ${bytesMax} bytes when it is decoded`);
}
