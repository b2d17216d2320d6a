/**
 * Pickles of samples, as picklers write them, must come to lines of the same paths, times and values; damaged ones, and programs
 * of any opcodes, to lines or a BAD_REQUEST, and to no more values than they have bytes.
 */
import assert from 'node:assert/strict';
import { TsdbError } from '#lib/errors.ts';
import { inOneGo } from '#lib/turns/steps.ts';
import { countInputs } from '#test/sim/counts.ts';
import { bytesOf, damaged, type Pick, pickOf } from '#test/sim/mutate.ts';
import { type Pickled, pickleOf } from './pickles_testing.ts';
import { linesOfPickle, type UnpickledLines } from './unpickle.ts';

const some = <T>(pick: Pick, of: readonly T[]): T => of[pick(of.length)]!;

interface Sample {
  readonly pickled: Pickled;
  /** Null for what is none. */
  readonly line: { readonly path: string; readonly time: number; readonly value: number } | null;
}

/** A number as clients have it, which may be a text. */
function numberOf(pick: Pick): readonly [pickled: Pickled, number: number] {
  switch (pick(6)) {
    case 0: {
      const whole = BigInt.asIntN(1 + pick(64), BigInt(pick(2 ** 32)) * BigInt(pick(2 ** 32)));
      return [whole, Number(whole)];
    }
    case 1: {
      const whole = some(pick, [
        0n,
        255n,
        256n,
        65535n,
        65536n,
        -1n,
        2n ** 31n,
        -(2n ** 63n),
        2n ** 70n,
        -(10n ** 30n),
      ]);
      return [whole, Number(whole)];
    }
    case 2: {
      const text = some(pick, ['1.5', '-3', '1e-7', '17', '.5']);
      return [text, Number(text)];
    }
    case 3: {
      const value = some(pick, [-0, 1e21, 1e-7, Infinity, -Infinity, Number.NaN, 5e-324, 0.1]);
      return [value, value];
    }
    default: {
      const value = pick(2 ** 32) / 2 ** pick(40);
      return [value, value];
    }
  }
}

function pathOf(pick: Pick): string {
  const name = some(pick, [
    'cpu',
    'a.b',
    `n${pick(50)}`,
    'ü.x',
    '\u{1f600}',
    'a\\b',
    "a'b",
    'm;t=1',
    '€',
  ]);
  return pick(12) === 0 ? name.padEnd(pick(600), '.x') : `${name}.${pick(10)}`;
}

function sampleOf(pick: Pick): Sample {
  const [time, timeNumber] = numberOf(pick);
  const [value, number] = numberOf(pick);
  const path = pathOf(pick);
  if (pick(12) > 0) {
    const line = { path, time: timeNumber, value: number };
    return { pickled: [path, [time, value]], line };
  }
  const other = some<Pickled>(pick, [
    [path, [time]],
    [path, [time, null]],
    [path, [time, [value]]],
    [path],
    [`${path} x`, [time, value]],
    [`${path}\n`, [time, value]],
    ['', [time, value]],
    [7n, [time, value]],
    [path, [time, '1 2']],
    null,
    path,
    [],
  ]);
  return { pickled: other, line: null };
}

function styleOf(pick: Pick): { readonly protocol: number; readonly isPython2: boolean } {
  const protocol = pick(6);
  return { protocol, isPython2: protocol < 3 && pick(2) === 0 };
}

/** Of the same few samples now and then, which the pickler then fetches from its memo. */
export function samplesOf(pick: Pick): readonly Sample[] {
  const few = Array.from({ length: 1 + pick(12) }, () => sampleOf(pick));
  return pick(60) === 0 ? Array.from({ length: pick(1200) }, () => some(pick, few)) : few;
}

export function generatedPickle(pick: Pick, samples: readonly Sample[]): Buffer {
  const list = samples.map(({ pickled }) => pickled);
  return pickleOf(list, styleOf(pick), pick);
}

export function checkLines(
  { text, refused }: UnpickledLines,
  samples: readonly Sample[],
  where: string,
): void {
  const good = samples.flatMap(({ line }) => (line === null ? [] : [line]));
  assert.equal(refused, samples.length - good.length, where);
  const lines = Buffer.from(text).toString().split('\n');
  assert.equal(lines.pop(), '', where);
  assert.equal(lines.length, good.length, where);
  for (const [at, { path, time, value }] of good.entries()) {
    const words = lines[at]!.split(' ');
    assert.equal(words.length, 3, where);
    assert.equal(words[0], path, where);
    assert.ok(Object.is(numberOfText(words[1]!), value), `${where}: ${words[1]} for ${value}`);
    assert.ok(Object.is(numberOfText(words[2]!), time), `${where}: ${words[2]} for ${time}`);
  }
}

const numberOfText = (text: string): number => Number(text.replace('inf', 'Infinity'));

const opcodes = Buffer.from(
  '()]lt\x85\x86\x87aeN\x88\x890pqr\x94ghjJKMG\x8aIFLXTB\x8c\x8dUCVS\x80\x95.2}Rc1\x8b\x8e',
  'latin1',
);

/** Opcodes in any order, lists and the memo most of all: deep ones, endless ones, and such as hold themselves. */
function programOf(pick: Pick): Uint8Array {
  const parts: Uint8Array[] = [Buffer.from(some(pick, [']', ']q\x00', '(', '']), 'latin1')];
  const piece = some(pick, [']', '(', 'h\x00', ']q\x00h\x00a', ')', 'K\x01', '\x94', ']h\x00a']);
  if (pick(8) === 0) parts.push(Buffer.from(piece.repeat(pick(3000)), 'latin1'));
  for (let count = pick(30); count > 0; count -= 1) {
    parts.push(opcodes.subarray(pick(opcodes.length)).subarray(0, 1));
    if (pick(2) === 0)
      parts.push(some(pick, [bytesOf(pick, pick(9)), Buffer.from('1\n'), Buffer.of(0)]));
  }
  if (pick(8) === 0) parts.push(Buffer.from('a'.repeat(pick(3000))));
  parts.push(Buffer.from(some(pick, ['e.', 'a.', '.', 'l.', ''])));
  return Buffer.concat(parts);
}

/** Null when it is refused. */
export function linesOfAny(bytes: Uint8Array, where: string): UnpickledLines | null {
  try {
    const lines = inOneGo(linesOfPickle(bytes));
    const text = Buffer.from(lines.text).toString();
    const count = lines.refused + text.split('\n').length - 1;
    assert.ok(count <= bytes.length, `${where}: ${count} samples of ${bytes.length} bytes`);
    // Nobody means it: it stands for what is no text.
    assert.ok(
      !text.includes('\ufffd') || /\xef\xbf\xbd|fffd/i.test(Buffer.from(bytes).toString('latin1')),
      where,
    );
    return lines;
  } catch (error) {
    assert.ok(error instanceof TsdbError && error.code === 'BAD_REQUEST', `${where}: ${error}`);
    return null;
  }
}

export function fuzz(seed: number, size: number): void {
  const pick = pickOf(seed);
  for (let round = 0; round < size; round += 1) {
    const where = `seed ${seed}, pickle ${round}`;
    const samples = samplesOf(pick);
    const pickle = generatedPickle(pick, samples);
    // Part of a larger array, as messages are.
    const within = Buffer.concat([Buffer.from('(l'), pickle, Buffer.from('a.')]);
    checkLines(inOneGo(linesOfPickle(within.subarray(2, 2 + pickle.length))), samples, where);
    for (let times = 0; times < 3; times += 1) {
      linesOfAny(damaged(pick, pickle), `${where}, damaged`);
    }
    linesOfAny(programOf(pick), `${where}, a program`);
    countInputs('pickles', 5);
  }
}
