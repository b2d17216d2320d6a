/** Lines of all kinds of numbers and blanks, whole and damaged: the scan reads those of the twin, and as it does. */
import assert from 'node:assert/strict';
import { SeededRandom } from '#test/seeded_random.ts';
import { countInputs } from '#test/sim/counts.ts';
import { LineScan } from './scan.ts';
import { lineOf } from './scan_twin.ts';

const damages = ' {}[],:"0123456789.-+eEnul\tx';

export function fuzz(seed: number, size: number): void {
  const random = new SeededRandom(seed);
  const scan = new LineScan();
  for (let round = 0; round < size; round++) {
    countInputs('lines of JSON');
    const text = damaged(random, lineText(random));
    const before = 'x'.repeat(random.below(5));
    const bytes = Buffer.from(`${before}${text}\n{"metric":{}}`);
    const end = before.length + Buffer.byteLength(text);
    const problem = scan.read(bytes, before.length, end);
    const twin = lineOf(text);
    // A metric that is no JSON is found when its tags are made, and a key that stands twice by the scan alone.
    if (twin === null) {
      if (problem === '') assert.throws(() => JSON.parse(metricOf(scan, bytes)), text);
      continue;
    }
    if (problem.startsWith('key is given twice')) continue;
    assert.equal(problem, '', text);
    assert.equal(JSON.stringify(JSON.parse(metricOf(scan, bytes))), twin.metric, text);
    assert.deepEqual([...scan.timestampMillis.subarray(0, scan.rowCount)], twin.millis, text);
    const words = scan.valueWords;
    const bits = twin.valueBits.map(
      (_, row) => (BigInt(words[2 * row + 1]!) << 32n) | BigInt(words[2 * row]!),
    );
    assert.deepEqual(bits, twin.valueBits, text);
  }
}

function metricOf({ metricStart, metricEnd }: LineScan, bytes: Buffer): string {
  return bytes.subarray(metricStart, metricEnd).toString();
}

function lineText(random: SeededRandom): string {
  const blank = (): string => (random.below(8) === 0 ? random.pick([' ', '\t', '  ']) : '');
  const rows = random.pick([0, 1, 1, 2, 5, 40]);
  const list = (item: () => string): string =>
    `[${blank()}${Array.from({ length: rows }, item).join(`${blank()},${blank()}`)}${blank()}]`;
  const labels = Array.from(
    { length: random.below(4) },
    (_, i) => `"l${i}":${JSON.stringify(random.pick(['a', '', 'ü}', '"q"', 'x\\y']))}`,
  );
  const members = [
    `"metric"${blank()}:${blank()}{${labels.join(',')}}`,
    `"values":${list(() => numberText(random))}`,
    `"timestamps":${list(() => String(1.7e12 + random.below(1e9)))}`,
  ];
  if (random.below(4) === 0) members.reverse();
  return `${blank()}{${members.join(`${blank()},${blank()}`)}}${blank()}`;
}

function numberText(random: SeededRandom): string {
  const digits = (most: number): string =>
    Array.from({ length: 1 + random.below(most) }, () => random.below(10)).join('');
  const whole = (): string => String(BigInt(digits(22)));
  switch (random.below(7)) {
    case 0:
      return random.pick([
        'null',
        '"NaN"',
        '"Infinity"',
        '"-Inf"',
        '"NaN:7ff0000000000002"',
        '"x"',
        '1e309',
      ]);
    case 1:
      return `${random.pick(['', '-'])}${whole()}.${digits(20)}e${random.pick(['', '-', '+'])}${random.below(330)}`;
    case 2:
      return `${whole()}E${random.pick(['', '-'])}${random.below(30)}`;
    case 3:
      return `-${random.below(1000)}.${digits(3)}`;
    case 4:
      return `0.${digits(25)}`;
    default:
      return String(random.below(100_000) / 100);
  }
}

function damaged(random: SeededRandom, text: string): string {
  if (random.below(2) === 0) return text;
  const at = random.below(text.length + 1);
  const put = random.pick(['', damages[random.below(damages.length)]!]);
  return text.slice(0, at) + put + text.slice(at + random.below(3));
}
