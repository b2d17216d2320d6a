/**
 * Queries must be parsed to what they mean by the rules of precedence, and so must their usual form; damaged ones to a tree that their
 * usual form is parsed to, or to an error with a place in the text.
 */
import assert from 'node:assert/strict';
import { onTheLoop } from '#engine/aside/aside.ts';
import { Turns } from '#lib/turns/turns.ts';
import { countInputs } from '#test/sim/counts.ts';
import { type Pick, pickOf } from '#test/sim/mutate.ts';
import { PromqlError } from '../words/errors.ts';
import type { Expr } from './ast.ts';
import { allFeatures } from './features.ts';
import { formatQuery } from './format.ts';
import { nestingMax, parseQuery } from './parser.ts';
import { QueryMaker, some } from './queries_testing.ts';
import { shapeOf } from './query_shapes_testing.ts';

const clock = { monotonicMillis: () => 0 };
const signal = new AbortController().signal;
const pieces = [
  '(',
  ')',
  '{',
  '}',
  '[',
  ']',
  ',',
  '"',
  "'",
  '`',
  '\\',
  '#',
  '\n',
  ' ',
  '-',
  '=',
  '~',
  '!',
  ':',
  '@',
  '.',
  '_',
  '0',
  '5m',
  'e',
  'x',
  '\x00',
  '\u{1f600}',
  '\ud800',
  '\ufffd',
  '',
];
const words = [
  ' by (',
  ' offset ',
  ' bool ',
  ' on ()',
  '[5m]',
  '[5m:]',
  ' and ',
  ' @ end()',
  'step()',
  'NaN',
  'inf',
  '1e',
  '0x',
  '**',
  'anchored',
];

const turning = (): { work: ReturnType<Turns['begin']>; aside: typeof onTheLoop } => ({
  work: Turns.of(clock).begin(signal),
  aside: onTheLoop,
});

function damaged(pick: Pick, text: string): string {
  let result = text;
  for (let count = 1 + pick(3); count > 0; count -= 1) {
    const at = pick(result.length + 1);
    const put = some(pick, pick(4) === 0 ? words : pieces);
    result = result.slice(0, at) + put + result.slice(at + pick(3));
  }
  return result;
}

/** Null for an error, which has its place. */
async function treeOf(text: string, where: string): Promise<Expr | null> {
  try {
    return await parseQuery(text, allFeatures, turning());
  } catch (error) {
    assert.ok(error instanceof PromqlError && error.kind === 'bad_data', `${where}: ${error}`);
    const place = /^([0-9]+):([0-9]+): parse error: ./.exec(error.message);
    const line = text.split('\n')[Number(place?.[1]) - 1];
    const column = Number(place?.[2]);
    const isThere = line !== undefined && column >= 1 && column <= Buffer.byteLength(line) + 1;
    assert.ok(isThere, `${where}: ${error.message}`);
    return null;
  }
}

/** Brackets inside of each other, to about the depth that is refused. */
async function checkDepth(pick: Pick, where: string): Promise<void> {
  const depth = nestingMax - 2 + pick(5);
  const [open, close] = some(pick, [
    ['(', ')'],
    ['abs(', ')'],
    ['-(', ')'],
    ['sum(', ')'],
  ] as const);
  const perOpen = open === '-(' ? 2 : 1;
  const count = Math.floor(depth / perOpen);
  const text = `${open.repeat(count)}up${close.repeat(count)}`;
  const isDeep = count * perOpen > nestingMax;
  assert.equal((await treeOf(text, where)) === null, isDeep, `${where}: ${depth} of ${open}`);
}

export async function fuzz(seed: number, size: number): Promise<void> {
  const pick = pickOf(seed);
  const maker = new QueryMaker(pick);
  for (let round = 0; round < size; round += 1) {
    const { text, shape } = maker.query(some(pick, ['vector', 'vector', 'scalar', 'matrix']), 3);
    const where = `seed ${seed}, query ${round}: ${JSON.stringify(text)}`;
    countInputs('queries');
    const made = await treeOf(text, where);
    assert.ok(made !== null, where);
    assert.equal(shapeOf(made), shape, where);
    await checkUsual(text, shape, where);
    for (let times = 0; times < 3; times += 1) {
      const other = damaged(pick, text);
      const whereOther = `seed ${seed}, query ${round}: ${JSON.stringify(other)}`;
      countInputs('queries');
      const tree = await treeOf(other, whereOther);
      if (tree !== null) await checkUsual(other, shapeOf(tree), whereOther);
    }
    if (pick(100) === 0) await checkDepth(pick, where);
  }
}

async function checkUsual(text: string, shape: string, where: string): Promise<void> {
  const usual = await formatQuery(text, allFeatures, turning());
  const tree = await treeOf(usual, `${where} printed as ${usual}`);
  assert.ok(tree !== null, `${where} printed as ${usual}`);
  assert.equal(shapeOf(tree), shape, `${where} printed as ${usual}`);
}
