import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from '#test/property_testing.ts';
import { formatScript } from './format.ts';
import { generatedScript, generatedSpace } from './generated_scripts_testing.ts';
import { parseScript } from './parser.ts';
import type { Script } from './tree.ts';

const withoutPlaces = (script: Script): unknown =>
  JSON.parse(
    JSON.stringify(script, (key, value) => (/^(start|end)$/.test(key) ? undefined : value)),
  );

test('formatScript() gives one form', () => {
  const cases: readonly (readonly [string, string])[] = [
    [' fetch\tname : foo # all\n|>=5', 'fetch name:foo | >= 5'],
    [
      'a=fetch name:"b c";b=a|sum;b|asPercent(a)',
      'a = fetch name:"b c";\nb = a | sum;\nb | asPercent (a)',
    ],
    ['((fetch{a,b}"c""d"x:True y:.50))', '((fetch {a,b} "c" "d" x:True y:.50))'],
    ['a===5;a', 'a = == 5;\na'],
  ];
  for (const [text, formatted] of cases) assert.equal(formatScript(parseScript(text)), formatted);
});

test('what formatScript() gives parses to the same tree', () => {
  fc.assert(
    fc.property(generatedScript, (script) => {
      const text = formatScript(script);
      const parsed = parseScript(text);
      assert.deepEqual(withoutPlaces(parsed), withoutPlaces(script), text);
      assert.equal(formatScript(parsed), text);
    }),
    { numRuns: 300 },
  );
});

test('spaces, ends of lines and comments between tokens change nothing', () => {
  fc.assert(
    fc.property(generatedScript, fc.array(generatedSpace, { minLength: 1 }), (script, spaces) => {
      const tokens = formatScript(script).match(/"[^"]*"|[<>=!]+|[|;:()]|[^\s"<>=!|;:()]+/g)!;
      const spaced = tokens.map((each, index) => each + spaces[index % spaces.length]!).join('');
      assert.deepEqual(withoutPlaces(parseScript(spaced)), withoutPlaces(script), spaced);
    }),
    { numRuns: 300 },
  );
});
