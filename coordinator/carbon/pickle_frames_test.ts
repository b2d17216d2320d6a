import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Pickles } from './pickle_frames.ts';

/** A pickle of one sample whose path is so long. */
function framed(pathLength: number): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(pathLength);
  const message = Buffer.concat([
    Buffer.from(']X'),
    length,
    Buffer.alloc(pathLength, 'a'),
    Buffer.from('K\x01K\x02\x86\x86a.', 'latin1'),
  ]);
  const head = Buffer.alloc(4);
  head.writeUInt32BE(message.length);
  return Buffer.concat([head, message]);
}

class Clock {
  readonly #sleeping: (() => void)[] = [];

  monotonicMillis(): number {
    return 0;
  }

  sleep(_millis: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#sleeping.push(resolve);
      signal.addEventListener('abort', () => reject(signal.reason as Error));
    });
  }

  pass(): void {
    for (const wake of this.#sleeping.splice(0)) wake();
  }
}

/** Of chunks that come when they are given. */
class Sender {
  readonly #chunks: Uint8Array[] = [];
  #wake: (() => void) | null = null;
  #isEnd = false;

  send(chunk: Uint8Array | null): void {
    if (chunk === null) this.#isEnd = true;
    else this.#chunks.push(chunk);
    this.#wake?.();
  }

  async *chunks(): AsyncGenerator<Uint8Array> {
    while (true) {
      const chunk = this.#chunks.shift();
      if (chunk !== undefined) yield chunk;
      else if (this.#isEnd) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}

const never = new AbortController().signal;

async function lengths(lines: AsyncIterable<Uint8Array>): Promise<number[]> {
  const all: number[] = [];
  for await (const text of lines) all.push(text.length);
  return all;
}

test('large messages that do not come give their places to others', async () => {
  const clock = new Clock();
  const refused: string[] = [];
  const pickles = new Pickles(clock, (_, problem) => refused.push(problem));
  const slow = Array.from({ length: 32 }, () => {
    const sender = new Sender();
    sender.send(framed(500_000).subarray(0, 1000));
    return assert.rejects(
      lengths(pickles.lines(sender.chunks(), never)),
      /a message of 500014 bytes is on its way for more than 30 s/,
    );
  });
  await new Promise(setImmediate);
  const [large, small] = [new Sender(), new Sender()];
  for (const [sender, length] of [
    [large, 600_000],
    [small, 60_000],
  ] as const) {
    sender.send(framed(length));
    sender.send(null);
  }
  let hasPassed = false;
  const largeLines = lengths(pickles.lines(large.chunks(), never)).then((all) => {
    assert.ok(hasPassed, 'it waited for a place');
    return all;
  });
  assert.deepEqual(await lengths(pickles.lines(small.chunks(), never)), [60_005]);
  hasPassed = true;
  clock.pass();
  await Promise.all(slow);
  assert.deepEqual(await largeLines, [600_005]);
  assert.deepEqual(refused, Array(32).fill('the last message of a connection is not whole'));
});

test('what is made of messages waits in few places until it is taken', async () => {
  const pickles = new Pickles(new Clock(), () => assert.fail('all are whole'));
  const held = await Promise.all(
    Array.from({ length: 8 }, async () => {
      const sender = new Sender();
      sender.send(framed(10));
      const lines = pickles.lines(sender.chunks(), never);
      assert.equal((await lines.next()).value?.length, 15);
      return lines;
    }),
  );
  const sender = new Sender();
  sender.send(framed(20));
  const next = pickles.lines(sender.chunks(), never).next();
  let isThere = false;
  void next.then(() => (isThere = true));
  await new Promise(setImmediate);
  assert.equal(isThere, false);
  await held[0]!.return(undefined);
  assert.equal((await next).value?.length, 25);
});

test('a connection that ends behind a length has a message that is not whole', async () => {
  for (const count of [1, 4, 5]) {
    const refused: string[] = [];
    const pickles = new Pickles(new Clock(), (_, problem) => refused.push(problem));
    const sender = new Sender();
    sender.send(framed(10));
    sender.send(framed(10).subarray(0, count));
    sender.send(null);
    assert.deepEqual(await lengths(pickles.lines(sender.chunks(), never)), [15]);
    assert.deepEqual(refused, ['the last message of a connection is not whole']);
  }
});

test('messages that are not small are not on their way for ever', async () => {
  const clock = new Clock();
  const refused: string[] = [];
  const pickles = new Pickles(clock, (_, problem) => refused.push(problem));
  const [small, medium] = [new Sender(), new Sender()];
  small.send(framed(5_000).subarray(0, 1_000));
  medium.send(framed(20_000).subarray(0, 1_000));
  const late = assert.rejects(lengths(pickles.lines(medium.chunks(), never)), {
    code: 'BAD_REQUEST',
    message: /a message of 20014 bytes is on its way for more than 30 s/,
  });
  const patient = lengths(pickles.lines(small.chunks(), never));
  await new Promise(setImmediate);
  clock.pass();
  await late;
  small.send(framed(5_000).subarray(1_000));
  small.send(null);
  assert.deepEqual(await patient, [5_005]);
  assert.equal(refused.length, 1);
});
