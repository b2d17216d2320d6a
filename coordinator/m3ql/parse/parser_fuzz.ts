/**
 * Scripts with any spaces and comments must be parsed to the trees that they were made of, whose words stand where they say;
 * damaged ones to a tree that its usual form is parsed to, too, or to an error with a place in the text.
 */
import assert from 'node:assert/strict';
import { TsdbError } from '#lib/errors.ts';
import { countInputs } from '#test/sim/counts.ts';
import { type Pick, pickOf } from '#test/sim/mutate.ts';
import { formatScript } from './format.ts';
import { parseScript, scriptDepthMax } from './parser.ts';
import { damagedScript, scriptOf, some, spacedText } from './scripts_testing.ts';
import type { Script } from './tree.ts';

const names = {
  calls: ['fetch', 'sum', 'a.b-c', 'true', '<', '<=', '==', '!=', '>=', '>', '_'],
  keywords: ['name', 'by', 'x-1', 'false'],
  argumentsEnd: 4,
};

/** Null for an error, which has its place. */
export function scriptOrError(text: string, where: string): Script | null {
  try {
    return parseScript(text);
  } catch (error) {
    checkPlace(error, text, where);
    return null;
  }
}

export function checkPlace(error: unknown, text: string, where: string): void {
  assert.ok(error instanceof TsdbError && error.code === 'BAD_REQUEST', `${where}: ${error}`);
  assert.ok(error.message.length < 2000, where);
  const place = / at line ([0-9]+), column ([0-9]+)[ :]/.exec(error.message);
  const lines = text.split(/\r\n|\r|\n/);
  const line = lines[Number(place?.[1]) - 1];
  const isThere = line !== undefined && Number(place![2]) <= Array.from(line).length + 1;
  assert.ok(isThere && Number(place![2]) > 0, `${where}: ${error.message}`);
}

/** Without places; those of words are checked. */
function bare(node: unknown, text: string): unknown {
  if (Array.isArray(node)) return node.map((each) => bare(each, text));
  if (typeof node !== 'object' || node === null) return node;
  const { start, end, ...others } = node as {
    start: number;
    end: number;
    kind: string;
    text?: string;
  };
  const isWord = others.text !== undefined && others.kind !== 'string';
  if (isWord && text !== '') assert.equal(text.slice(start, end), others.text);
  return Object.fromEntries(Object.entries(others).map(([name, of]) => [name, bare(of, text)]));
}

/** Parentheses inside of each other, to about the depth that is refused. */
function checkDepth(pick: Pick, where: string): void {
  const depth = scriptDepthMax - 2 + pick(5);
  const open = some(pick, ['(', 'f (', 'f x:(', 'a | (']);
  const text = `${'(a)|'.repeat(pick(200))}${open.repeat(depth)}a${')'.repeat(depth)}`;
  assert.equal(scriptOrError(text, where) === null, depth > scriptDepthMax, `${where}: ${text}`);
}

export function fuzz(seed: number, size: number): void {
  const pick = pickOf(seed);
  for (let round = 0; round < size; round += 1) {
    const where = `seed ${seed}, script ${round}`;
    const script = scriptOf(pick, names);
    const text = spacedText(pick, script);
    countInputs('scripts');
    assert.deepEqual(bare(parseScript(text), text), bare(script, ''), `${where}: ${text}`);
    for (let times = 0; times < 3; times += 1) {
      const other = damagedScript(pick, text);
      const whereOther = `${where}: ${JSON.stringify(other)}`;
      countInputs('scripts');
      const tree = scriptOrError(other, whereOther);
      if (tree === null) continue;
      const usual = formatScript(tree);
      assert.deepEqual(bare(parseScript(usual), usual), bare(tree, other), whereOther);
    }
    if (pick(50) === 0) checkDepth(pick, where);
  }
}
