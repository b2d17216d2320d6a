/**
 * Answers compressed with zstd or gzip, whichever their client likes better, as `Accept-Encoding` says by quality values.
 * Compression runs on threads of the runtime, so that it holds up nobody, and a part at a time, so that an answer of any
 * length takes no more memory than a short one. Short ones are sent as they are: of a small query the state of a
 * compressor would be the larger part.
 */
import * as zlib from 'node:zlib';
import type { Transform } from 'node:stream';

export type AnswerEncoding = 'zstd' | 'gzip';

/** In the order of our own preference. Runtimes before Node 22.15 have no zstd. */
const served: readonly AnswerEncoding[] =
  typeof zlib.createZstdCompress === 'function' ? ['zstd', 'gzip'] : ['gzip'];

/**
 * Answers that are compressed in parts at the same time; others are sent as they are. Each waits for the threads on which
 * logs and files are written, too.
 */
export const encodersMax = 16;

/** About what compressing one answer takes in memory, with the parts on their way. */
export const encoderBytes: number = 2 << 20;

/** Higher ones take more of a query than they save of its way. */
const gzipLevel = 1;
const zstdLevel = 1;
/** 8 times less memory than by default for the same answers. */
const zstdWindowLog = 18;
/** Of what comes out of it at once. */
const chunkSize = 1 << 16;

/** Encodings that are looked at in a header; browsers send four. */
const namedMax = 20;

/**
 * The encoding for a client; null for none.
 * @param accepted value of the header; '' asks for none
 */
export function encodingFor(accepted: string): AnswerEncoding | null {
  if (accepted === '') return null;
  const qualities = qualitiesOf(accepted);
  const others = qualities.get('*') ?? 0;
  // What is not named may always be sent as it is, but nobody who names others asks for that.
  const plain = qualities.get('identity') ?? 0;
  let best: AnswerEncoding | null = null;
  let bestQuality = 0;
  for (const encoding of served) {
    const quality = qualities.get(encoding) ?? others;
    if (quality > bestQuality && quality >= plain) {
      best = encoding;
      bestQuality = quality;
    }
  }
  return best;
}

function qualitiesOf(accepted: string): ReadonlyMap<string, number> {
  const qualities = new Map<string, number>();
  for (const part of accepted.split(',', namedMax)) {
    const [name, ...parameters] = part.split(';').map((each) => each.trim().toLowerCase());
    const given = parameters.find((parameter) => /^q\s*=/.test(parameter));
    const quality = given === undefined ? 1 : Number(given.replace(/^q\s*=\s*/, '') || 'NaN');
    // What is no quality asks for nothing.
    const isOne = quality >= 0 && quality <= 1;
    if (name !== '') qualities.set(name === 'x-gzip' ? 'gzip' : name!, isOne ? quality : 0);
  }
  return qualities;
}

/** Whether answers of this type become shorter: texts, and messages that have them. */
export function isCompressible(contentType: string): boolean {
  return /^(?:text\/|application\/(?:json|x-ndjson)|application\/vnd\.google\.protobuf)/.test(
    contentType,
  );
}

const zstdParameters = {
  [zlib.constants.ZSTD_c_compressionLevel]: zstdLevel,
  [zlib.constants.ZSTD_c_windowLog]: zstdWindowLog,
};

/** For an answer that is made in parts; whoever takes what comes out of it also ends it. */
export function encoderOf(encoding: AnswerEncoding): Transform {
  if (encoding === 'gzip') return zlib.createGzip({ level: gzipLevel, chunkSize });
  return zlib.createZstdCompress({ params: zstdParameters, chunkSize });
}
