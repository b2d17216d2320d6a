/** Queries of many words, and of regexps that it takes long to compile. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noFeatures } from './features.ts';
import { assertNotHeld, countedAside, turningOf, turnsOf } from '#engine/aside/turning_testing.ts';
import { parseQuery, parseSelectors, queryLengthMax } from './parser.ts';
import { tokensMax } from '../words/tokens.ts';

const options = noFeatures;
const repeated = (count: number, piece: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => piece(index)).join(',');

/** As many words as fit, and the text with some more. */
const long: readonly (readonly [fits: string, tooLong: string])[] = [
  [`${'#\n'.repeat(tokensMax - 1)}1`, `${'#\n'.repeat(500_000)}1`],
  [
    `x{${repeated(tokensMax / 4 - 1, (i) => `a${i}="b"`)}}`,
    `x{${repeated(140_000, () => 'a="b"')}}`,
  ],
  [
    `x{${repeated(tokensMax / 4 - 1, () => 'a!="b"')}}`,
    `{a=~".+",${repeated(130_000, () => 'a!="b"')}}`,
  ],
  [
    `{${repeated(tokensMax / 4 - 1, (i) => `a=~"(b|c)+d${i}"`)}}`,
    `{${repeated(60_000, () => 'a=~"(b|c)+d"')}}`,
  ],
  [
    `sum by (${repeated(tokensMax / 2 - 5, (i) => `a${i}`)}) (m)`,
    `sum by (${repeated(100_000, (i) => `a${i}`)}) (m)`,
  ],
  [
    `a * on (${repeated(4_900, (i) => `a${i}`)}) group_left (${repeated(4_900, (i) => `b${i}`)}) b`,
    `a * on (${repeated(90_000, (i) => `a${i}`)}) b`,
  ],
];

test('parseQuery() says of too many words that they are too many, whatever they are', async () => {
  const others = [
    '('.repeat(500_000),
    '}{'.repeat(500_000),
    '; '.repeat(500_000),
    '"" '.repeat(300_000),
  ];
  for (const query of [...long.map(([, tooLong]) => tooLong), ...others]) {
    const message = new RegExp(
      `^\\d+:\\d+: parse error: more than ${tokensMax} words, numbers, strings, operators, brackets and comments$`,
    );
    const refused = parseQuery(query, options, turningOf());
    await assert.rejects(refused, { code: 'BAD_REQUEST', message });
  }
});

test('parseQuery() gives way while it takes as many words as there may be', async () => {
  for (const [query] of long) {
    const seen = await turnsOf(parseQuery(query, options, turningOf()));
    const begin = query.slice(0, 20);
    assert.ok(seen.turns > 2, `${begin}: ${seen.turns}`);
    assertNotHeld(seen, begin);
  }
});

test('a text of a megabyte that is one word is taken', async () => {
  for (const query of [
    `"${'a'.repeat(queryLengthMax - 2)}"`,
    `"${'\\n'.repeat(queryLengthMax / 2 - 1)}"`,
    `"${'\\x41'.repeat(queryLengthMax / 4 - 1)}"`,
    `${' '.repeat(queryLengthMax - 1)}1`,
    `${'\n'.repeat(queryLengthMax - 1)}1`,
  ]) {
    const { longestMillis } = await turnsOf(parseQuery(query, options, turningOf()));
    // It is one step of some 40 ms; what grows with the square takes minutes.
    assert.ok(longestMillis < 2_000, `${JSON.stringify(query.slice(0, 5))}: ${longestMillis}`);
  }
});

test('all selectors of a request share the words that one query may have', async () => {
  const selector = `x{${repeated(200, (i) => `a${i}="b"`)}}`;
  const selectors = (count: number): string[] => Array.from({ length: count }, () => selector);
  assert.equal((await parseSelectors(selectors(24), turningOf())).length, 24);
  await assert.rejects(parseSelectors(selectors(25), turningOf()), /more than 20000 words/);
  const texts = Array.from({ length: 3 }, () => `{a="${'b'.repeat(500_000)}"}`);
  await assert.rejects(
    parseSelectors(texts, turningOf()),
    /longer than 1048576 characters together/,
  );
});

test('regexps that it takes long to compile are compiled aside, and checked as others', async () => {
  const dear = (name: string): string => `(?:[^\\\\p{L}]|${name})`.repeat(2_000);
  const { aside, kinds } = countedAside();
  const parsed = (query: string) => parseQuery(query, options, turningOf(aside));
  const expr = await parsed(
    `sum(x{a=~"${dear('a')}", b!~"${dear('b')}"}) + {c=~"(${dear('c')})*",d=""}`,
  ).catch((error: unknown) => error);
  assert.match(
    String(expr),
    /1:\d+: parse error: vector selector must contain at least one non-empty/,
  );
  assert.deepEqual(kinds, ['compile', 'compile', 'compile']);
  // What is known of them is kept.
  assert.equal((await parsed(`x{a=~"${dear('a')}", b!~"${dear('b')}"}`)).kind, 'vectorSelector');
  assert.equal(kinds.length, 3);
  await assert.rejects(parsed(`1 + x{a=~"${dear('d')}("}`), {
    code: 'BAD_REQUEST',
    message: /^1:7: parse error: error parsing regexp: missing closing \)/,
  });
});
