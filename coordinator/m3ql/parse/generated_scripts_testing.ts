/** Scripts for tests of properties: trees that a parser may give, and texts that mean the same or nothing. */
import fc from '#test/property_testing.ts';
import type { Argument, Call, Expression, Macro, Pipeline, Script, Value } from './tree.ts';

/** A tree without places. */
type Bare<T> = T extends readonly (infer Each)[]
  ? readonly Bare<Each>[]
  : T extends object
    ? { readonly [Key in keyof T as Exclude<Key, 'start' | 'end'>]: Bare<T[Key]> }
    : T;

const letter = fc.constantFrom(...'abcxyzABCXYZ_'.split(''));
const nameCharacter = fc.oneof(letter, fc.constantFrom(...'0123456789.-/\\'.split('')));
const patternCharacter = fc.oneof(nameCharacter, fc.constantFrom(...'{}[]*?,^$'.split('')));
const textOf = (characters: fc.Arbitrary<string>, minLength: number) =>
  fc.string({ unit: characters, minLength, maxLength: 8 });

const name = fc.tuple(letter, textOf(nameCharacter, 0)).map(([first, rest]) => first + rest);
const number = fc
  .tuple(
    fc.boolean(),
    textOf(fc.constantFrom(...'0123456789'.split('')), 0),
    fc.nat(999),
    fc.boolean(),
  )
  .map(([isNegative, whole, digits, isWhole]) => {
    const text = `${isNegative ? '-' : ''}${whole}${isWhole && whole !== '' ? '' : `.${digits}`}`;
    return { kind: 'number' as const, value: Number(text), text };
  });
const boolean = fc
  .constantFrom('true', 'false', 'True', 'FALSE')
  .map((text) => ({ kind: 'boolean' as const, value: /^t/i.test(text), text }));
const pattern = textOf(patternCharacter, 1)
  .filter((text) => !/^-?([0-9]+|[0-9]*\.[0-9]+)$/.test(text))
  .map((text) => ({ kind: 'pattern' as const, text }));
const string = fc
  .string({ unit: 'binary', maxLength: 12 })
  .map((text) => ({ kind: 'string' as const, text: text.replaceAll('"', '') }));

const { pipeline } = fc.letrec<{
  pipeline: Bare<Pipeline>;
  expression: Bare<Expression>;
  call: Bare<Call>;
  argument: Bare<Argument>;
  value: Bare<Value>;
}>((tie) => ({
  pipeline: fc.record({
    kind: fc.constant('pipeline' as const),
    expressions: fc.array(tie('expression'), { minLength: 1, maxLength: 4 }),
  }),
  expression: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    tie('call'),
    tie('call'),
    tie('pipeline'),
  ),
  call: fc.record({
    kind: fc.constant('call' as const),
    name: fc.oneof(name, fc.constantFrom('<=', '<', '==', '!=', '>=', '>')),
    arguments: fc.array(tie('argument'), { maxLength: 4 }),
  }),
  argument: fc.record({
    kind: fc.constant('argument' as const),
    keyword: fc.option(name),
    value: tie('value'),
  }),
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    pattern,
    number,
    boolean,
    string,
    tie('pipeline'),
  ),
}));

const macro: fc.Arbitrary<Bare<Macro>> = fc.record({
  kind: fc.constant('macro' as const),
  name,
  pipeline,
});

/** Its nodes stand nowhere: `start` and `end` are missing. */
export const generatedScript: fc.Arbitrary<Script> = fc
  .record({
    kind: fc.constant('script' as const),
    macros: fc.array(macro, { maxLength: 3 }),
    pipeline,
  })
  .map((script) => script as unknown as Script);

/** What may stand between two tokens. */
export const generatedSpace: fc.Arbitrary<string> = fc
  .array(fc.constantFrom(' ', '\t', '\n', '\r\n', '\r', '# a "b" | c;\n', '#\u00e9(\r'), {
    minLength: 1,
    maxLength: 3,
  })
  .map((parts) => parts.join(''));

const token = fc.oneof(
  fc.constantFrom(
    ...'|;:=<>!()"#+\'%\\ \n\r\t'.split(''),
    '==',
    '=>',
    '||',
    '\u00e9',
    '\u{1f600}',
    '\ud800',
  ),
  fc.constantFrom('fetch', 'name:', 'foo', 'true', '-5', '.5', '5.', 'a.b*', '{x,y}', '"z"', 'm ='),
);

/** Texts of which nearly all are wrong. */
export const garbage: fc.Arbitrary<string> = fc.oneof(
  fc.array(token, { maxLength: 40, size: 'max' }).map((tokens) => tokens.join('')),
  fc.array(token, { maxLength: 40, size: 'max' }).map((tokens) => tokens.join(' ')),
  fc.string({ unit: 'binary', maxLength: 60 }),
);
