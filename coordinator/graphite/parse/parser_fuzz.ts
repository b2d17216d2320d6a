/**
 * Trees that are printed must be parsed to themselves, and what damaged texts are parsed to must be printed and parsed to the same;
 * others come to an error with its position.
 */
import assert from 'node:assert/strict';
import { TsdbError } from '#lib/errors.ts';
import { countInputs } from '#test/sim/counts.ts';
import { type Pick, pickOf } from '#test/sim/mutate.ts';
import { parseTarget, targetDepthMax } from './parser.ts';
import { printed, targetOf } from './targets_testing.ts';
import type { Node } from './tree.ts';

const some = <T>(pick: Pick, of: readonly T[]): T => of[pick(of.length)]!;

const pieces = [
  '(',
  ')',
  '{',
  '}',
  ',',
  '.',
  "'",
  '"',
  '\\',
  '|',
  '=',
  ' ',
  '\n',
  'a',
  '1',
  '-',
  '\x00',
  '\u{1f600}',
  '\ud800',
];
const words = [
  'template(',
  ',x=1',
  '$x',
  'true',
  'none',
  'inf',
  '1e5',
  '|f()',
  'f(',
  '))',
  '{{',
  'a.b',
];

function damaged(pick: Pick, text: string): string {
  let result = text;
  for (let count = 1 + pick(4); count > 0; count -= 1) {
    const at = pick(result.length + 1);
    const put = some(pick, pick(3) === 0 ? words : [...pieces, '', '', '']);
    result = result.slice(0, at) + put + result.slice(at + pick(3));
  }
  return result;
}

/** Null for an error, which has its place. */
function treeOf(text: string, where: string): Node | null {
  try {
    return parseTarget(text);
  } catch (error) {
    assert.ok(error instanceof TsdbError && error.code === 'BAD_REQUEST', `${where}: ${error}`);
    const place = / at position ([0-9]+): "/.exec(error.message)?.[1];
    assert.ok(place !== undefined, `${where}: ${error.message}`);
    assert.ok(Number(place) >= 1 && Number(place) <= text.length + 1, `${where}: ${error.message}`);
    return null;
  }
}

/** Without the texts of calls, which are as they were written. */
function bare(node: Node): unknown {
  if (node.kind !== 'call') return node;
  const { name, positional, named } = node;
  return {
    name,
    positional: positional.map(bare),
    named: named.map((each) => [each.name, bare(each.value)]),
  };
}

function nodeCount(node: Node): number {
  if (node.kind !== 'call') return 1;
  const values = [...node.positional, ...node.named.map(({ value }) => value)];
  return values.reduce((count, value) => count + nodeCount(value), 1);
}

/** Calls inside of each other, or one after the other, to about the depth that is refused. */
function checkDepth(pick: Pick, where: string): void {
  const depth = targetDepthMax - 3 + pick(6);
  const inner = pick(depth + 1);
  const pipes = '|f()'.repeat(depth - inner);
  const deep = `${'f('.repeat(inner)}a${pipes}${')'.repeat(inner)}`;
  // Arguments beside each other are not inside of each other.
  const text = `f(${'a,'.repeat(pick(150))}${deep})`;
  const isDeep = depth + 2 > targetDepthMax;
  assert.equal(treeOf(text, where) === null, isDeep, `${where}: ${text}`);
}

/** Of any depth, in the longest text there may be. */
function checkOpen(pick: Pick, where: string): void {
  const part = some(pick, [
    '(',
    'f(',
    '{',
    'a|',
    'f(a=',
    'template(',
    '"',
    '\\(',
    'f(1,',
    'a{',
    't{',
    ' ',
    '-',
  ]);
  const text = part.repeat(Math.floor(60_000 / part.length));
  treeOf(text, `${where}: ${part} again and again`);
}

export function fuzz(seed: number, size: number): void {
  const pick = pickOf(seed);
  for (let round = 0; round < size; round += 1) {
    const where = `seed ${seed}, target ${round}`;
    const made = printed(pick, targetOf(pick, 4));
    countInputs('targets');
    if (made === null) continue;
    assert.deepEqual(parseTarget(made.text + some(pick, ['', ' ', '\n'])), made.node, made.text);
    for (let times = 0; times < 3; times += 1) {
      const text = damaged(pick, made.text);
      countInputs('targets');
      const tree = treeOf(text, `${where}: ${JSON.stringify(text)}`);
      if (tree === null) continue;
      assert.ok(nodeCount(tree) <= text.length, text);
      const again = printed(pick, tree);
      if (again === null || text.includes('template')) continue;
      assert.deepEqual(
        bare(parseTarget(again.text)),
        bare(tree),
        `${text} printed as ${again.text}`,
      );
    }
    if (pick(50) === 0) checkDepth(pick, where);
    if (pick(500) === 0) checkOpen(pick, where);
  }
}
