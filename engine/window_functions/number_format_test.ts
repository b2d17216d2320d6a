import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatGeneral, formatNumber, formatSample } from './number_format.ts';
import { RowPrinter } from './row_printer.ts';
import { makeRowBuffer } from './row.ts';

const cases: readonly (readonly [number, string])[] = [
  [0, '0'],
  [-0, '-0'],
  [1, '1'],
  [-12.5, '-12.5'],
  [0.1 + 0.2, '0.30000000000000004'],
  [1e21, '1000000000000000000000'],
  [1.5e-7, '0.00000015'],
  [-2.5e22, '-25000000000000000000000'],
  [Number.MIN_VALUE, `0.${'0'.repeat(323)}5`],
  [NaN, 'NaN'],
  [Infinity, '+Inf'],
  [-Infinity, '-Inf'],
  [123456.789012, '123456.789012'],
  [999999999.999999, '999999999.999999'],
  [1e15, '1000000000000000'],
  [0.000001, '0.000001'],
];

test('formatNumber() prints the shortest digits without an exponent', () => {
  for (const [value, text] of cases) assert.equal(formatNumber(value), text);
});

test('formatSample() prints what Prometheus 3 prints for samples', () => {
  // Answers of Prometheus to vector(…).
  const answers: readonly (readonly [number, string])[] = [
    [0, '0'],
    [-0, '-0'],
    [0.000001, '0.000001'],
    [0.0000010000001, '0.0000010000001'],
    [0.00000099999, '9.9999e-07'],
    [1.5e-7, '1.5e-07'],
    [-1e-9, '-1e-09'],
    [2.5e-10, '2.5e-10'],
    [1e-100, '1e-100'],
    [5e-324, '5e-324'],
    [1e20, '100000000000000000000'],
    [999_999_999_999_999_900_000, '999999999999999900000'],
    [1e21, '1e+21'],
    [-1.5e21, '-1.5e+21'],
    [12_345_678_901_234_568e6, '1.2345678901234568e+22'],
    [1e100, '1e+100'],
    [Number.MAX_VALUE, '1.7976931348623157e+308'],
    [NaN, 'NaN'],
    [Infinity, '+Inf'],
    [-Infinity, '-Inf'],
  ];
  for (const [value, text] of answers) assert.equal(formatSample(value), text);
});

function printed(values: readonly number[], prefixOf: (step: number) => string): string {
  const buffer = makeRowBuffer(values.length);
  values.forEach((value, step) => {
    if (!Object.is(value, 77)) buffer.values[step] = value;
  });
  const prefixes = values.map((_, step) => prefixOf(step));
  let text = '';
  new RowPrinter().print(buffer, 0, prefixes, (piece) => {
    text += Buffer.from(piece).toString();
  });
  return text;
}

test('the row printer prints what formatSample() prints, and leaves absent steps out', () => {
  const values = cases.map(([value]) => value);
  let state = 12345;
  const words = new Uint32Array(2);
  const anyDouble = new Float64Array(words.buffer);
  for (let i = 0; i < 20_000; i++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    const scale = 10 ** (state % 9);
    values.push(((state >>> 4) - 100_000_000) / scale);
    if (i % 5 === 0) values.push(77);
    if (i % 7 === 0) values.push(state / 3);
    // Any mantissa, exponents around those of everyday numbers.
    words[0] = Math.imul(state, 2_654_435_761) ^ i;
    words[1] = ((((state >>> 3) % 110) + 985) << 20) | (state & 0xfffff);
    values.push(anyDouble[0]!, -anyDouble[0]! * 3);
  }
  const wanted = values
    .map((value, step) => (value === 77 ? '' : `,[${step}.123,"${formatSample(value)}"]`))
    .join('');
  const got = printed(values, (step) => `,[${step}.123,"`);
  assert.ok(got === wanted, 'the texts are the same');
});

test('formatGeneral() prints what Go prints with %g', () => {
  const prints: readonly (readonly [number, string])[] = [
    [0, '0'],
    [-0, '-0'],
    [0.0001, '0.0001'],
    [0.00001234, '1.234e-05'],
    [999_999, '999999'],
    [1_000_000, '1e+06'],
    [-1_234_567.5, '-1.2345675e+06'],
    [1e100, '1e+100'],
    [5e-324, '5e-324'],
    [Infinity, '+Inf'],
    [NaN, 'NaN'],
  ];
  for (const [value, text] of prints) assert.equal(formatGeneral(value), text);
});
