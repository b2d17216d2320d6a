/** Rows of all kinds of numbers, times and blanks, whole and damaged: what the scan takes is what the twin reads, and the usual is taken. */
import assert from 'node:assert/strict';
import { nanosPerSecond, parseTimestampNanos } from '#lib/time.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { countInputs } from '#test/sim/counts.ts';
import { RowScan } from './scan.ts';
import { rowOf } from './scan_twin.ts';

const damages = ' {}[],:"0123456789.-+eEnul\tx\\';

export function fuzz(seed: number, size: number): void {
  const random = new SeededRandom(seed);
  const scan = new RowScan();
  for (let round = 0; round < size; round++) {
    countInputs('rows of JSON');
    const isUsual = random.below(4) === 0;
    const text = isUsual ? usualText(random) : damaged(random, rowText(random));
    const before = 'x'.repeat(random.below(5));
    const bytes = Buffer.from(`${before}${text}\n}"tags":{}}`);
    const isTaken = scan.read(bytes, before.length, before.length + Buffer.byteLength(text));
    assert.ok(isTaken || !isUsual, text);
    if (!isTaken) continue;
    const tags = bytes.subarray(scan.tagsStart, scan.tagsEnd).toString();
    const twin = rowOf(text);
    // Tags that are no JSON are found when the series is made, and a text that is no time by who reads it.
    if (twin === null) {
      if (scan.timeText === '') assert.throws(() => JSON.parse(tags), text);
      else assert.throws(() => nanosOf(scan) && JSON.parse(tags), text);
      continue;
    }
    assert.equal(JSON.stringify(JSON.parse(tags)), twin.tags, text);
    assert.ok(Object.is(scan.value, twin.value), text);
    assert.equal(nanosOf(scan), twin.timestampNanos, text);
  }
}

function nanosOf({ seconds, nanos, timeText }: RowScan): bigint {
  if (timeText !== '') return parseTimestampNanos(timeText, 'timestamp');
  return BigInt(seconds) * nanosPerSecond + BigInt(nanos);
}

function usualText(random: SeededRandom): string {
  const fraction = random.pick(['', `.${random.below(1000)}`]);
  const value = random.pick([random.below(1000) / 10, 1e300, -5, 0.1]);
  return `{"tags":{"__name__":"m","a":"ü"},"timestamp":${1.7e9 + random.below(1e8)}${fraction},"value":${value}}`;
}

export function rowText(random: SeededRandom): string {
  const blank = (): string => (random.below(8) === 0 ? random.pick([' ', '\t', '  ']) : '');
  const labels = Array.from(
    { length: random.below(4) },
    (_, i) => `"l${i}":${JSON.stringify(random.pick(['a', '', 'ü}', '"q"', 'x\\y']))}`,
  );
  const members = [
    `"tags"${blank()}:${blank()}{${labels.join(',')}}`,
    `"timestamp":${blank()}${timeText(random)}`,
    `"value":${blank()}${valueText(random)}`,
  ];
  if (random.below(4) === 0) members.reverse();
  return `${blank()}{${members.join(`${blank()},${blank()}`)}}${blank()}`;
}

function digits(random: SeededRandom, most: number): string {
  return Array.from({ length: 1 + random.below(most) }, () => random.below(10)).join('');
}

function timeText(random: SeededRandom): string {
  switch (random.below(6)) {
    case 0:
      return JSON.stringify(
        random.pick([
          '2026-11-29T00:00:00Z',
          '1969-12-31T23:59:59.5+01:00',
          '1700000000.123456789',
          'soon',
          '2026-02-30T00:00:00Z',
        ]),
      );
    case 1:
      return random.pick([
        '1.7e9',
        '-5',
        '-0.5',
        '9223372036',
        '9223372035.999999',
        '1e-7',
        '0',
        '0.00000025',
      ]);
    case 2:
      return `${digits(random, 16)}.${digits(random, 12)}`;
    case 3:
      return `0.${digits(random, 15)}`;
    default:
      return `${1.7e9 + random.below(1e8)}${random.pick(['', `.${digits(random, 6)}`])}`;
  }
}

function valueText(random: SeededRandom): string {
  switch (random.below(6)) {
    case 0:
      return random.pick(['null', '"1"', '{"a":1}', 'true', '1e400', '-0', '[1]']);
    case 1:
      return `${random.pick(['', '-'])}${digits(random, 18)}.${digits(random, 20)}e${random.pick(['', '-', '+'])}${random.below(330)}`;
    case 2:
      return `-${random.below(1000)}.${digits(random, 3)}`;
    default:
      return String(random.below(100_000) / 100);
  }
}

export function damaged(random: SeededRandom, text: string): string {
  if (random.below(2) === 0) return text;
  const at = random.below(text.length + 1);
  const put = random.pick(['', damages[random.below(damages.length)]!]);
  return text.slice(0, at) + put + text.slice(at + random.below(3));
}
