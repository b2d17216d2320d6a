/**
 * Messages of a connection, cut into reads at any byte, some of them damaged or with lengths that are none: each must come to what
 * it comes to by itself, and what is behind a length that is none to nothing.
 */
import assert from 'node:assert/strict';
import { TsdbError } from '#lib/errors.ts';
import { countInputs } from '#test/sim/counts.ts';
import { damaged, type Pick, pickOf } from '#test/sim/mutate.ts';
import { Pickles } from './pickle_frames.ts';
import { generatedPickle, linesOfAny, samplesOf } from './unpickle_fuzz.ts';

const some = <T>(pick: Pick, of: readonly T[]): T => of[pick(of.length)]!;
const bytesMax = 1 << 20;
const never = new AbortController().signal;

/** Time stands still: what waits for it waits until it is told not to. */
const clock = {
  monotonicMillis: () => 0,
  sleep: (_millis: number, signal: AbortSignal): Promise<void> =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    }),
};

interface Connection {
  readonly bytes: Buffer;
  /** Texts of lines, an item a message that has some. */
  readonly texts: readonly string[];
  readonly refused: number;
  /** A length is none. */
  readonly fails: boolean;
  readonly messageCount: number;
}

interface Message {
  readonly bytes: Uint8Array;
  /** '' for none. */
  readonly text: string;
  readonly refused: number;
}

function messageOf(bytes: Uint8Array, where: string): Message {
  const lines = linesOfAny(bytes, where);
  if (lines === null) return { bytes, text: '', refused: 1 };
  return { bytes, text: Buffer.from(lines.text).toString(), refused: lines.refused };
}

const lengthOf = (length: number): Buffer => {
  const head = Buffer.alloc(4);
  head.writeUInt32BE(length);
  return head;
};

function connectionOf(pick: Pick, whole: readonly Message[], where: string): Connection {
  const parts: Uint8Array[] = [];
  const texts: string[] = [];
  let refused = 0;
  const messageCount = pick(12);
  for (let at = 0; at < messageCount; at += 1) {
    let message = some(pick, whole);
    if (pick(4) === 0) {
      const other = damaged(pick, message.bytes);
      if (other.length > 0) message = messageOf(other, where);
    }
    parts.push(lengthOf(message.bytes.length), message.bytes);
    refused += message.refused;
    if (message.text !== '') texts.push(message.text);
  }
  const end = pick(8);
  const fails = end === 0;
  if (fails) {
    parts.push(lengthOf(pick(2) === 0 ? 0 : bytesMax + 1 + pick(2 ** 32 - bytesMax - 1)));
    parts.push(Buffer.alloc(pick(20)));
  } else if (end === 1) {
    parts.push(lengthOf(1 + pick(bytesMax)).subarray(0, 1 + pick(4)));
    refused += 1;
  } else if (end === 2) {
    const length = 2 + pick(100);
    parts.push(lengthOf(length), Buffer.alloc(1 + pick(length - 1)));
    refused += 1;
  }
  return { bytes: Buffer.concat(parts), texts, refused, fails, messageCount };
}

function readsOf(pick: Pick, bytes: Buffer): Uint8Array[] {
  const reads: Uint8Array[] = [];
  const most = pick(5) === 0 ? 3 : 1 + pick(4000);
  for (let at = 0; at < bytes.length; ) {
    // Small ones would be many of a long connection.
    const end = at + 1 + pick(Math.max(most, bytes.length >> 9));
    reads.push(bytes.subarray(at, end));
    at = end;
  }
  return reads;
}

async function* given(reads: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* reads;
}

export async function fuzz(seed: number, size: number): Promise<void> {
  const pick = pickOf(seed);
  let refused = 0;
  const whole = Array.from({ length: 12 }, () => {
    const pickle = generatedPickle(pick, samplesOf(pick));
    // Beyond what is taken as a small one.
    const behind = Buffer.alloc(pick(40) === 0 ? 70_000 : 0);
    return messageOf(Buffer.concat([pickle, behind]), `seed ${seed}`);
  });
  const pickles = new Pickles(clock, (count) => (refused += count));
  for (let round = 0; round < size; round += 1) {
    const where = `seed ${seed}, connection ${round}`;
    const expected = connectionOf(pick, whole, where);
    const texts: string[] = [];
    let failure: unknown = null;
    refused = 0;
    try {
      for await (const text of pickles.lines(given(readsOf(pick, expected.bytes)), never)) {
        texts.push(Buffer.from(text).toString());
      }
    } catch (error) {
      failure = error;
    }
    assert.deepEqual(texts, expected.texts, where);
    if (!expected.fails) assert.equal(failure, null, where);
    else assert.ok(failure instanceof TsdbError && failure.code === 'BAD_REQUEST', where);
    if (!expected.fails) assert.equal(refused, expected.refused, where);
    countInputs('pickle messages', expected.messageCount + 1);
  }
}
