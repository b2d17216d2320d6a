import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { sliceMillis } from '#lib/turns/turns.ts';
import { Packets } from './packets.ts';

/** A clock that reading moves, and what is read. */
class Reading {
  readonly read: string[] = [];
  dropped = 0;
  #millis = 0;
  readonly packets: Packets;

  /** @param millisOfByte that reading takes */
  constructor(millisOfByte: number) {
    this.packets = new Packets(
      { monotonicMillis: () => this.#millis },
      (lines) => {
        this.#millis += millisOfByte * lines.length;
        this.read.push(Buffer.from(lines).toString());
      },
      () => (this.dropped += 1),
    );
  }

  add(text: string): void {
    this.packets.add(Buffer.from(text));
  }
}

test('packets are read where they come while there is time, and in their order when there is none', async () => {
  const reading = new Reading(sliceMillis / 10);
  for (let i = 0; i < 9; i++) reading.add(`p${i}`);
  const atOnce = reading.read.length;
  assert.ok(atOnce >= 4 && atOnce < 9, `${atOnce} at once`);
  await reading.packets[Symbol.asyncDispose]();
  assert.deepEqual(
    reading.read.join('\n').split('\n').filter(Boolean),
    Array.from({ length: 9 }, (_, i) => `p${i}`),
  );
  assert.equal(reading.dropped, 0);
});

test('a long packet lets others in between its lines', async () => {
  const reading = new Reading(sliceMillis / 4096);
  reading.add('x:1|c\n'.repeat(8_000));
  let turns = 0;
  let isOver = false;
  const others = (async () => {
    while (!isOver) {
      await new Promise(setImmediate);
      turns += 1;
    }
  })();
  await reading.packets[Symbol.asyncDispose]();
  isOver = true;
  await others;
  assert.equal(reading.read.join('').length, 48_001);
  assert.ok(turns >= 8, `${turns} turns of the loop`);
});

test('what there is no room for is lost, and counted', async () => {
  const reading = new Reading(0);
  for (let i = 0; i < 300; i++) reading.add(`${i}`.padEnd(60_000, 'x'));
  assert.ok(reading.dropped > 100 && reading.dropped < 200, `${reading.dropped}`);
  await reading.packets[Symbol.asyncDispose]();
  const kept = reading.read.join('').split('\n').filter(Boolean);
  assert.equal(kept.length, 300 - reading.dropped);
  assert.ok(kept.at(-1)!.startsWith(`${kept.length - 1}x`));
});

test('of a real clock nothing is lost either', async () => {
  const read: string[] = [];
  const packets = new Packets(
    realEnv.clock,
    (lines) => read.push(...Buffer.from(lines).toString().split('\n').filter(Boolean)),
    () => assert.fail('there is room'),
  );
  for (let i = 0; i < 3_000; i++)
    packets.add(Buffer.from(`${i}`.padEnd(i % 700 === 0 ? 5_000 : 20)));
  await packets[Symbol.asyncDispose]();
  assert.deepEqual(
    read.map(Number),
    Array.from({ length: 3_000 }, (_, i) => i),
  );
});
