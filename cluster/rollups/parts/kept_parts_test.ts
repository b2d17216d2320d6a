import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addValue,
  emptyPart,
  type WindowPart,
} from '../../aggregation_rules/rollups/accumulators.ts';
import { type Output, Outputs } from '../../aggregation_rules/rollups/outputs.ts';
import { noRuleSets } from '../../aggregation_rules/sets/over_time.ts';
import { realEnv } from '#lib/env/real.ts';
import { encodeTags } from '#lib/tags.ts';
import { KeptParts, KeptWindows } from './kept_parts.ts';
import type { PartsAsked, RollupParts } from './parts.ts';

const minute = 60_000_000_000n;
const never = new AbortController().signal;
const tags = Buffer.from(encodeTags([{ name: 'a', value: 'b' }])).toString('latin1');
const output = new Outputs().ofKey(JSON.stringify([tags, ['Sum'], [], null]));

/** Tells which windows were made. */
class Making implements RollupParts {
  readonly made: string[] = [];
  readonly #part: () => WindowPart;

  constructor(part = (): WindowPart => emptyPart(['Sum'])) {
    this.#part = part;
  }

  async of({ windows, isFinal }: PartsAsked): Promise<(window: number) => [Output, WindowPart][]> {
    const first = Number(windows.firstEndNanos / minute);
    for (let i = 0; i < windows.windowCount; i++) {
      this.made.push(`${first + i}${isFinal ? ' final' : ''}`);
    }
    return () => [[output, this.#part()]];
  }
}

let nowNanos = 10n * minute;

const asked = (first: number, windowCount: number, isFinal = false): PartsAsked => ({
  windows: { resolutionNanos: minute, firstEndNanos: BigInt(first) * minute, windowCount },
  sets: noRuleSets,
  isFinal,
});

test('a window is made once, and once more when it is to be final', async () => {
  const making = new Making();
  const parts = new KeptParts(making, realEnv.clock, new KeptWindows(() => nowNanos), 'one');
  const made = async (of: PartsAsked): Promise<string[]> => {
    making.made.length = 0;
    const partsOf = await parts.of(of, never);
    for (let i = 0; i < of.windows.windowCount; i++) {
      assert.equal([...partsOf(i)].length, 1, `window ${i}`);
    }
    return [...making.made];
  };
  assert.deepEqual(await made(asked(3, 2)), ['3', '4']);
  assert.deepEqual(await made(asked(2, 4)), ['2', '5']);
  assert.deepEqual(await made(asked(2, 2, true)), ['2 final', '3 final']);
  assert.deepEqual(await made(asked(2, 3, true)), ['4 final']);
  assert.deepEqual(await made(asked(2, 4)), []);
});

test('of more than there is room for the oldest are made again', async () => {
  const making = new Making();
  const parts = new KeptParts(making, realEnv.clock, new KeptWindows(() => nowNanos, 2_500), 'one');
  await parts.of(asked(1, 10), never);
  making.made.length = 0;
  await parts.of(asked(8, 3), never);
  assert.deepEqual(making.made, []);
  await parts.of(asked(1, 1), never);
  assert.deepEqual(making.made, ['1']);
});

test('what a sketch has counted takes room, too', async () => {
  const making = new Making(() => {
    const part = emptyPart(['P90']);
    for (let i = 0; i < 400; i++) addValue(part, 0, 1.1 ** i);
    return part;
  });
  const parts = new KeptParts(
    making,
    realEnv.clock,
    new KeptWindows(() => nowNanos, 30_000),
    'one',
  );
  await parts.of(asked(1, 4), never);
  making.made.length = 0;
  await parts.of(asked(1, 1), never);
  assert.deepEqual(making.made, ['1']);
});

test('what was made by a clock that was ahead is made again when it is right', async () => {
  const making = new Making();
  const parts = new KeptParts(making, realEnv.clock, new KeptWindows(() => nowNanos), 'one');
  const made = async (): Promise<string[]> => {
    making.made.length = 0;
    await parts.of(asked(3, 1, true), never);
    return [...making.made];
  };
  nowNanos = 70n * minute;
  assert.deepEqual(await made(), ['3 final']);
  nowNanos = 69n * minute;
  assert.deepEqual(await made(), []);
  nowNanos = 10n * minute;
  assert.deepEqual(await made(), ['3 final']);
  assert.deepEqual(await made(), []);
});
