import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SeededNumbers } from '../codec/samples_testing.ts';
import { PointPrinter, type PrintedPoints } from './point_printer.ts';

const printer = new PointPrinter();
const numberText = (value: number): string => `<${value}>`;

function printed(points: PrintedPoints, leavesOutNulls: boolean): string {
  let text = '';
  for (let point = 0; point < points.values.length; ) {
    point = printer.print(points, point, leavesOutNulls, numberText, (piece) => {
      text += Buffer.from(piece).toString();
    });
  }
  return text;
}

/** Those that the kernel prints are as JavaScript prints them; others are the caller's. */
function plainly(points: PrintedPoints, leavesOutNulls: boolean): string {
  const { values, present, startSeconds, stepSeconds } = points;
  let text = '';
  values.forEach((value, i) => {
    const isNull = present[i] === 0 || Number.isNaN(value);
    if (isNull && leavesOutNulls) return;
    text += `, [${isNull ? 'null' : value}, ${startSeconds + i * stepSeconds}]`;
  });
  return text;
}

/** JavaScript has no minus before a zero; JSON takes it. */
const isPrinted = (value: number): boolean =>
  Number.isNaN(value) || (Math.abs(value) >= 1e-6 && Math.abs(value) < 1e15) || Object.is(value, 0);

test('points are printed with the shortest digits, and nulls as such or not at all', () => {
  const numbers = new SeededNumbers(1);
  for (const [startSeconds, stepSeconds, count] of [
    [1_700_000_000, 60, 20_000],
    [0, 1, 1],
    [-120, 60, 5],
    [1_700_000_000, 86_400, 4096],
    [12.5, 0.25, 4097],
  ] as const) {
    const values = Float64Array.from({ length: count }, (_, i) => {
      const kind = i % 7;
      if (kind === 0) return numbers.below(100_000) / 100;
      if (kind === 1) return -numbers.normal() * 10 ** (numbers.below(20) - 6);
      if (kind === 2) return NaN;
      if (kind === 3) return numbers.below(1_000_000_000);
      return numbers.normal();
    });
    for (const [i, value] of values.entries()) if (!isPrinted(value)) values[i] = 1;
    const present = Uint8Array.from(values, () => (numbers.below(4) === 0 ? 0 : 1));
    const points = { values, present, startSeconds, stepSeconds };
    for (const leavesOutNulls of [false, true]) {
      const isSame = printed(points, leavesOutNulls) === plainly(points, leavesOutNulls);
      assert.ok(isSame, `${count} points from ${startSeconds} on`);
    }
  }
});

test('numbers that the kernel does not print are the callers', () => {
  const values = Float64Array.of(1, Infinity, -Infinity, 1e300, 1e-9, 5e-324, 1e15, -0, 2);
  const points = {
    values,
    present: new Uint8Array(values.length).fill(1),
    startSeconds: 60,
    stepSeconds: 60,
  };
  points.present[3] = 0;
  assert.equal(
    printed(points, false),
    ', [1, 60], [<Infinity>, 120], [<-Infinity>, 180], [null, 240], [<1e-9>, 300], [<5e-324>, 360], [<1000000000000000>, 420], [-0, 480], [2, 540]',
  );
});
