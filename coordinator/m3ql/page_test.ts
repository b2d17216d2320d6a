/** docs/M3QL.md: every function stands there, and every example answers what stands below it. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { TsdbError } from '#lib/errors.ts';
import { usageOf } from './calls/parameters.ts';
import { ScriptData } from './evaluate/script_testing.ts';
import { refusedNames, scriptFunctionList, scriptFunctions } from './functions/table.ts';

const page = readFileSync(new URL('../../docs/M3QL.md', import.meta.url), 'utf8');

/** Blocks of a kind, with the heading above each. */
function blocksOf(kind: string): { readonly heading: string; readonly lines: readonly string[] }[] {
  const found: { heading: string; lines: string[] }[] = [];
  let heading = '';
  let block: string[] | null = null;
  for (const line of page.split('\n')) {
    if (block !== null && line === '```') block = null;
    else if (block !== null) block.push(line);
    else if (line === '```' + kind) {
      block = [];
      found.push({ heading, lines: block });
    } else if (line.startsWith('#')) heading = line;
  }
  return found;
}

async function answerOf(data: ScriptData, script: string): Promise<readonly string[]> {
  try {
    return await data.lines(script);
  } catch (error) {
    if (!(error instanceof TsdbError)) throw error;
    return [`400: ${error.message}`];
  }
}

test('examples answer what the page says', async (t) => {
  const data = new ScriptData(blocksOf('data').flatMap(({ lines }) => lines));
  const examples = blocksOf('m3ql');
  assert.ok(examples.length > scriptFunctionList.length);
  for (const { lines } of examples) {
    const script = lines.filter((line) => !line.startsWith('#')).join('\n');
    const shown = lines.filter((line) => line.startsWith('# ')).map((line) => line.slice(2));
    await t.test(script, async () => {
      assert.deepEqual(await answerOf(data, script), shown);
    });
  }
});

test('every function has a heading that says how it is called, and an example that calls it', () => {
  const examples = blocksOf('m3ql');
  for (const each of scriptFunctionList) {
    const heading = `### ${[usageOf(each), ...each.aliases].map((text) => `\`${text}\``).join(', ')}`;
    const below = examples.filter((example) => example.heading === heading);
    assert.ok(below.length > 0, `the page has no example below: ${heading}`);
    const names = [each.name, ...each.aliases];
    const isCalled = below.every(({ lines }) => {
      const words = lines
        .filter((line) => !line.startsWith('#'))
        .join(' ')
        .split(/[ |()]+/);
      return names.some((name) => words.includes(name));
    });
    assert.ok(isCalled, `the example does not call it: ${heading}`);
  }
});

test('headings of functions are those of functions, and names that are refused are told', () => {
  const names = [...page.matchAll(/^### `([^` ]+)/gm)].map(([, name]) => name!);
  const unknown = names.filter((name) => name !== 'fetch' && !scriptFunctions.has(name));
  assert.deepEqual(unknown, []);
  for (const name of refusedNames.keys()) assert.ok(page.includes(`\`${name}\``), name);
});
