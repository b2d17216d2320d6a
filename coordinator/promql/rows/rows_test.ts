import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Labels } from './labels.ts';
import { MappedRows, Matrix, RelabelledRows, RepeatedRows, type Rows } from './rows.ts';

const stepCount = 4;
const labels = ['1', '2'].map((value) => Labels.of([{ name: 'a', value }]));

function matrix(): Matrix {
  const made = Matrix.make(labels, stepCount);
  for (let i = 0; i < 2 * stepCount; i++) made.buffer.values[i] = i;
  return made;
}

function rowOf(rows: Rows, index: number): number[] {
  const at = rows.load(index);
  return [...rows.buffer.values.subarray(at, at + rows.stepCount)];
}

const plus = (rows: Rows, summand: number): MappedRows =>
  new MappedRows(rows, rows.labels, ({ values }) => {
    for (let i = 0; i < values.length; i++) values[i] = values[i]! + summand;
  });

test('a chain of functions changes one buffer, and never what is in memory', () => {
  const source = matrix();
  let rows: Rows = plus(source, 1);
  const { buffer } = rows;
  for (let i = 0; i < 100; i++) rows = plus(new RelabelledRows(rows, labels), 10);
  assert.equal(rows.buffer, buffer);
  assert.deepEqual(rowOf(rows, 1), [1005, 1006, 1007, 1008]);
  // However often and in whatever order they are asked for.
  assert.deepEqual(rowOf(rows, 1), [1005, 1006, 1007, 1008]);
  assert.deepEqual(rowOf(rows, 0), [1001, 1002, 1003, 1004]);
  assert.deepEqual([...source.buffer.values], [0, 1, 2, 3, 4, 5, 6, 7]);
});

test('a value of all steps may be changed at each', () => {
  const repeated = plus(new RepeatedRows(matrix(), stepCount), 1);
  for (let again = 0; again < 2; again++) {
    assert.deepEqual(rowOf(repeated, 1), [5, 5, 5, 5]);
    assert.deepEqual(rowOf(repeated, 0), [1, 1, 1, 1]);
  }
});
