/** Scripts of all functions with any arguments must be compiled to a tree of no more nodes than its limits allow, or to an error with its place. */
import assert from 'node:assert/strict';
import { Turns } from '#lib/turns/turns.ts';
import { count, countInputs } from '#test/sim/counts.ts';
import { type Pick, pickOf } from '#test/sim/mutate.ts';
import type { Tree } from '../../graphite/evaluate/context.ts';
import type { Node } from '../../graphite/parse/tree.ts';
import { scriptRows, scriptFunctions } from '../functions/table.ts';
import { checkPlace, scriptOrError } from '../parse/parser_fuzz.ts';
import { damagedScript, scriptOf, some, spacedText } from '../parse/scripts_testing.ts';
import { compileScript } from './compile.ts';

const names = {
  calls: ['fetch name:foo', 'fetch name:foo host:*', ...scriptFunctions.keys()],
  argumentsEnd: 2,
  keywords: [
    ...new Set(
      [...scriptRows.values()].flatMap(({ parameters }) => parameters.map(({ name }) => name)),
    ),
  ],
};
/** Some for each call and argument that a script may have. */
const nodesMax = 20_000;

/** Nodes that several others have count once. */
function nodesOf({ root }: Tree): number {
  const seen = new Set<Node>();
  const rest: Node[] = [root];
  for (let node = rest.pop(); node !== undefined; node = rest.pop()) {
    if (seen.has(node)) continue;
    seen.add(node);
    if (node.kind === 'call')
      rest.push(...node.positional, ...node.named.map(({ value }) => value));
  }
  return seen.size;
}

const clock = { monotonicMillis: () => 0 };
const signal = new AbortController().signal;

function usualScript(pick: Pick): string {
  const whole = spacedText(pick, scriptOf(pick, names));
  // Behind macros, if there are any.
  const at = whole.lastIndexOf(';') + 1;
  const start = pick(4) > 0 ? 'fetch name:foo | ' : '';
  return `${whole.slice(0, at)}\n${start}${whole.slice(at)}`;
}

/** Each macro stands for the one before it twice. */
function doublingScript(pick: Pick): string {
  const levels = 1 + pick(15);
  const macros = Array.from(
    { length: levels },
    (_, level) => `m${level + 1} = m${level} | m${level};`,
  );
  return `m0 = abs | abs; ${macros.join('')} fetch name:foo | m${levels}`;
}

export async function fuzz(seed: number, size: number): Promise<void> {
  const pick = pickOf(seed);
  for (let round = 0; round < size; round += 1) {
    const made = pick(30) === 0 ? doublingScript(pick) : usualScript(pick);
    const text = pick(4) === 0 ? damagedScript(pick, made) : made;
    const where = `seed ${seed}, script ${round}: ${JSON.stringify(text)}`;
    countInputs('scripts to compile');
    const script = scriptOrError(text, where);
    if (script === null) continue;
    const work = Turns.of(clock).begin(signal, 'read');
    try {
      const tree = await compileScript(script, text, some(pick, [1, 10, 3600]), work);
      assert.ok(nodesOf(tree) <= nodesMax, where);
      count('scripts that are compiled');
    } catch (error) {
      checkPlace(error, text, where);
    }
  }
}
