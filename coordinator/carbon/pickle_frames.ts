/** Carbon's pickle protocol: messages with their length in front of them, four bytes, the highest first. */
import { badRequest, messageOf, TsdbError } from '#lib/errors.ts';
import { linesOfPickle } from './unpickle.ts';

/** As Carbon has it. */
const messageBytesMax: number = 1 << 20;
const lengthBytes = 4;
/** Parts of a message that comes in small pieces; each would cost more than what is in it. */
const partsMax = 256;

/**
 * Messages as lines of plaintext, each as a chunk.
 * @param onRefused samples that are none, or a message that is no pickle, in words
 * @throws {TsdbError} BAD_REQUEST for a message that is too long or empty: where the next one begins is not known
 */
export async function* linesOfPickles(
  chunks: AsyncIterable<Uint8Array>,
  onRefused: (count: number, problem: string) => void,
): AsyncGenerator<Uint8Array> {
  let parts: Uint8Array[] = [];
  let bytes = 0;
  /** How many there have to be for the next step. */
  let needed = lengthBytes;
  for await (const chunk of chunks) {
    parts.push(chunk);
    bytes += chunk.length;
    if (parts.length === partsMax) parts = [Buffer.concat(parts)];
    if (bytes < needed) continue;
    let held = Buffer.concat(parts);
    while (held.length >= needed) {
      const length = held.readUInt32BE();
      if (length === 0 || length > messageBytesMax) {
        throw badRequest(
          `cannot read pickles: a message has 1 to ${messageBytesMax} bytes: ${length}`,
        );
      }
      needed = lengthBytes + length;
      if (held.length < needed) break;
      const text = linesOf(held.subarray(lengthBytes, needed), onRefused);
      held = held.subarray(needed);
      needed = lengthBytes;
      if (text.length > 0) yield text;
    }
    parts = [held];
    bytes = held.length;
  }
}

function linesOf(
  message: Uint8Array,
  onRefused: (count: number, problem: string) => void,
): Uint8Array {
  try {
    const { text, refused } = linesOfPickle(message);
    if (refused > 0)
      onRefused(refused, `${refused} samples of a pickle are no (path, (time, value))`);
    return text;
  } catch (error) {
    if (!(error instanceof TsdbError)) throw error;
    onRefused(1, messageOf(error));
    return new Uint8Array(0);
  }
}
