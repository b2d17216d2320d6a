import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { test } from 'node:test';
import { realEnv } from '../env/real.ts';
import { readHeld } from './delivery.ts';
import { Leaving } from './leaving.ts';
import { ReadMemory, readsWaitingMax } from './read_memory.ts';

const mib = 1 << 20;
const { signal } = new AbortController();

/** Of 64 MiB, 56 of them for large reads; time passes when the test says so. */
function open() {
  const waits = new Set<() => void>();
  let nowMillis = 0;
  const clock = {
    ...realEnv.clock,
    monotonicMillis: () => nowMillis,
    sleep: (_: number, until: AbortSignal) =>
      new Promise<void>((resolve, reject) => {
        waits.add(resolve);
        until.addEventListener('abort', () => {
          waits.delete(resolve);
          reject(until.reason);
        });
      }),
  };
  const allowance = 'answers may take (an eighth of db.memoryMax)';
  const memory = new ReadMemory({ clock, bytesMax: 64 * mib, allowance });
  const passSecond = async (): Promise<void> => {
    nowMillis += 1_000;
    for (const resolve of waits) {
      waits.delete(resolve);
      resolve();
    }
    await turn();
  };
  const passWait = async (): Promise<void> => {
    for (let second = 0; second < 5; second++) await passSecond();
  };
  return { memory, clock, passSecond, passWait };
}

/** Notes in which order promises are kept or broken. */
function noting() {
  const noted: string[] = [];
  const note = (name: string, promise: Promise<unknown>): void => {
    promise.then(
      () => noted.push(name),
      (error: { code?: string }) => noted.push(`${name}: ${error.code}`),
    );
  };
  return { noted, note };
}

test('reads wait until others have given back, who has begun before who has not', async () => {
  const { memory } = open();
  const { noted, note } = noting();
  const first = await memory.enter(36 * mib, signal);
  const second = await memory.enter(16 * mib, signal);
  note('third begins', memory.enter(10 * mib, signal));
  note('second grows', second.growTo(26 * mib, signal));
  await turn();
  assert.deepEqual(noted, []);
  assert.equal(memory.waiting, 2);
  first.shrinkTo(27 * mib);
  await turn();
  assert.deepEqual(noted, ['second grows']);
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  await turn();
  assert.deepEqual(noted, ['second grows', 'third begins']);
  assert.equal(memory.bytes, 36 * mib);
});

test('small reads pass by large ones that wait, in room that is theirs', async () => {
  const { memory } = open();
  const { noted, note } = noting();
  using large = await memory.enter(56 * mib, signal);
  note('another large one', memory.enter(10 * mib, signal));
  const small = [];
  for (let i = 0; i < 4; i++) small.push(await memory.enter(mib, signal));
  assert.equal(memory.bytes, 60 * mib, 'the other half is for first bytes');
  note('one small read more', memory.enter(mib, signal));
  note('a small one that becomes large', small[0]!.growTo(2 * mib, signal));
  await turn();
  assert.deepEqual(noted, []);
  small[1]![Symbol.dispose]();
  await turn();
  assert.deepEqual(noted, ['one small read more']);
  large.shrinkTo(0);
  await turn();
  assert.deepEqual(
    new Set(noted.slice(1)),
    new Set(['a small one that becomes large', 'another large one']),
  );
});

test('beginnings of large reads leave room for reads of few series', async () => {
  const { memory } = open();
  const { noted, note } = noting();
  const reads = [await memory.enter(56 * mib, signal)];
  // As they go: some bytes at a time, and then more than small ones have.
  for (let i = 0; i < 20; i++) {
    const read = memory.begin();
    let steps = 0;
    while (steps < 16 && read.tryGrow(64 << 10)) steps += 1;
    note(`large ${i}`, read.grow(4 * mib, signal));
    reads.push(read);
  }
  assert.ok(memory.bytes <= 62 * mib, `${memory.bytes}`);
  for (let i = 0; i < 10; i++) reads.push(await memory.enter(64 << 10, signal));
  // One that has more waits, and then passes by those that are large.
  note('some series', memory.enter(mib, signal));
  await turn();
  assert.deepEqual(noted, []);
  reads[0]!.shrinkTo(40 * mib);
  await turn();
  assert.deepEqual(noted, ['some series', 'large 0', 'large 1']);
  for (const read of reads) read[Symbol.dispose]();
  await turn();
  assert.equal(memory.waiting, 0);
  assert.equal(memory.bytes, mib);
});

test('who waits too long, or finds too many waiting, is told to come later', async () => {
  const { memory, passWait } = open();
  const { noted, note } = noting();
  using _ = await memory.enter(56 * mib, signal);
  const left = new AbortController();
  for (let i = 0; i < readsWaitingMax; i++) {
    note(`${i}`, memory.enter(2 * mib, i === 0 ? left.signal : signal));
  }
  await assert.rejects(memory.enter(2 * mib, signal), { code: 'RESOURCE_EXHAUSTED' });
  left.abort(Object.assign(new Error('the client left'), { code: 'gone' }));
  await passWait();
  assert.ok(noted.includes('0: gone'));
  assert.equal(noted.filter((line) => line.endsWith('RESOURCE_EXHAUSTED')).length, 999);
  assert.equal(memory.waiting, 0);
  assert.equal(memory.bytes, 56 * mib);
});

test('reads that all need more do not wait for each other for ever', async () => {
  const { memory } = open();
  const { noted, note } = noting();
  const [a, b, c] = await Promise.all([1, 2, 3].map(() => memory.enter(18 * mib, signal)));
  note('a', a!.growTo(28 * mib, signal));
  note('b', b!.growTo(28 * mib, signal));
  await turn();
  await assert.rejects(c!.growTo(28 * mib, signal), { code: 'RESOURCE_EXHAUSTED' });
  c![Symbol.dispose]();
  await turn();
  assert.deepEqual(noted, ['a', 'b']);
  // The last one that does not wait goes.
  const d = await memory.enter(mib, signal);
  note('a again', a!.growTo(38 * mib, signal));
  note('b again', b!.growTo(50 * mib, signal));
  d[Symbol.dispose]();
  await turn();
  assert.deepEqual(noted.slice(2), ['b again: RESOURCE_EXHAUSTED']);
  b![Symbol.dispose]();
  await turn();
  assert.equal(noted.at(-1), 'a again');
});

test('an answer that is larger than all that one read may take is refused for good', async () => {
  const { memory } = open();
  using read = await memory.enter(0, signal);
  await assert.rejects(read.growTo(56 * mib + 1, signal), {
    code: 'BAD_REQUEST',
    message: /takes 58720257 bytes, more than the 58720256 of one: 67108864 .*db\.memoryMax/,
  });
  await read.growTo(56 * mib, signal);
});

test('parts of one read share what it takes, and what fails of it leaves nothing behind', async () => {
  const { memory } = open();
  const { noted, note } = noting();
  const read = memory.begin();
  assert.equal(memory.bytes, 0);
  assert.ok(read.tryGrow(1000) && read.tryGrow(2000));
  assert.equal(memory.bytes, 65_536, 'the first bytes are there for both');
  await read.grow(10 * mib, signal);
  assert.equal(memory.bytes, 10 * mib + 3000);
  read.give(10 * mib);
  assert.equal(memory.bytes, 65_536);
  using _ = await memory.enter(50 * mib, signal);
  note('one part', read.grow(8 * mib, signal));
  note('another part', read.grow(9 * mib, signal));
  await turn();
  read[Symbol.dispose]();
  await turn();
  assert.deepEqual(noted, ['one part: CANCELLED', 'another part: CANCELLED']);
  assert.ok(!read.tryGrow(1));
  assert.equal(memory.bytes, 50 * mib);
  assert.equal(memory.waiting, 0);
});

test('who joins answers takes what they take, not the first bytes of each', async () => {
  const { memory: ofNode } = open();
  const { memory: ofSession } = open();
  const joining = ofSession.begin();
  for (let i = 0; i < 10; i++) {
    await readHeld(ofNode, { memory: joining }, signal, (reservation) =>
      reservation.growTo(1000, signal),
    );
  }
  assert.equal(joining.usedBytes, 10_000);
  assert.equal(ofSession.bytes, 65_536);
  assert.equal(ofNode.bytes, 0);
});

test('answers that nobody takes give way to who waits, and those that are taken do not', async () => {
  const { memory, clock, passSecond } = open();
  const { noted, note } = noting();
  const leave = async (name: string, bytes: number) => {
    const read = await memory.enter(bytes, signal);
    const leaving = new Leaving(clock, (error) => {
      noted.push(`${name} is cut off: ${error.code}`);
      read[Symbol.dispose]();
    });
    read.leaves(leaving);
    leaving.waits(64 << 10);
    return leaving;
  };
  const quick = await leave('quick', 20 * mib);
  await leave('stuck', 20 * mib);
  const trickling = await leave('trickling', 16 * mib);
  for (let second = 0; second < 5; second++) {
    await passSecond();
    for (const [leaving, bytes] of [
      [quick, 2 * mib],
      [trickling, 1000],
    ] as const) {
      leaving.took(bytes);
      leaving.waits(64 << 10);
    }
  }
  assert.deepEqual(noted, [], 'nobody needs their memory');
  note('begins', memory.enter(20 * mib, signal));
  await turn();
  assert.deepEqual(noted, ['stuck is cut off: RESOURCE_EXHAUSTED', 'begins']);
  note('begins, too', memory.enter(16 * mib, signal));
  await turn();
  assert.deepEqual(noted.slice(2), ['trickling is cut off: RESOURCE_EXHAUSTED', 'begins, too']);
  note('waits', memory.enter(16 * mib, signal));
  await passSecond();
  assert.equal(memory.waiting, 1, 'who takes his answer keeps it');
  assert.equal(memory.cut, 2);
});
