/**
 * Tables in M3's tests of rules (filters, types, policies, transforms), read from a checkout of it and held against ours:
 * node test/conformance/m3_rules.ts CHECKOUT. Says how many of each file hold, and which do not.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { aggregationTypeOf } from '#cluster/aggregation_rules/aggregation_types.ts';
import { filterMatches, parseFilter } from '#cluster/aggregation_rules/filter.ts';
import { parsePattern } from '#cluster/aggregation_rules/pattern.ts';
import { mappingRuleOfR2 } from '#cluster/aggregation_rules/sets/r2_json.ts';
import { transformTypes } from '#cluster/aggregation_rules/rules.ts';
import { Fields } from '#cluster/fields.ts';
import { parseDurationNanos } from '#lib/time.ts';

/** One row of a table. */
interface Case {
  readonly what: string;
  readonly holds: () => boolean;
}

const quoted = /"((?:[^"\\]|\\.)*)"/g;

const textsOf = (go: string): string[] =>
  [...go.matchAll(quoted)].map(([, text]) => JSON.parse(`"${text}"`) as string);

/** The body of a function of tests. */
function bodyOf(go: string, name: string): string {
  const start = go.indexOf(`func ${name}(`);
  if (start < 0) throw new Error(`there is no ${name} in it`);
  return go.slice(start, go.indexOf('\n}\n', start));
}

/** What stands in a list, from its name to its end. */
function listOf(body: string, head: string): string {
  const start = body.indexOf(head);
  if (start < 0) throw new Error(`there is no ${head}`);
  return body.slice(start + head.length, body.indexOf('\n\t}', start));
}

function isRefused(run: () => unknown): boolean {
  try {
    run();
    return false;
  } catch {
    return true;
  }
}

const refuses = (texts: readonly string[], read: (text: string) => unknown): Case[] =>
  texts.map((text) => ({ what: `refuses ${text}`, holds: () => isRefused(() => read(text)) }));

const takes = (texts: readonly string[], read: (text: string) => unknown): Case[] =>
  texts.map((text) => ({ what: `takes ${text}`, holds: () => !isRefused(() => read(text)) }));

const matches = (pattern: string, value: string, expected: boolean): Case => ({
  what: `${pattern} ${expected ? 'matches' : 'does not match'} ${value}`,
  holds: () => parsePattern(pattern, 'pattern').matches(value) === expected,
});

/** Patterns, and rows of a value with whether each of them matches it. */
function patternTable(body: string): Case[] {
  const patterns = [...body.matchAll(/testPattern\{pattern: ("(?:[^"\\]|\\.)*")/g)].map(
    ([, text]) => JSON.parse(text!) as string,
  );
  return [...body.matchAll(/newTestInput\("([^"]*)", ([^)]*)\)/g)].flatMap(([, value, expected]) =>
    expected!.split(', ').map((one, i) => matches(patterns[i]!, value!, one === 'true')),
  );
}

function filterCases(go: string): Case[] {
  const negation = bodyOf(go, 'TestNewFilterFromFilterValueWithNegation');
  const bad = [
    ...textsOf(bodyOf(go, 'TestNewFilterFromFilterValueInvalidPattern').split('\n')[1]!),
    ...textsOf(
      listOf(bodyOf(go, 'TestBadPatterns'), 'patterns := []string{').replaceAll(/\/\/.*/g, ''),
    ),
  ];
  return [
    ...refuses(bad, (text) => parsePattern(text, 'pattern')),
    ...negation
      .split('pattern:')
      .slice(1)
      .flatMap((part) => {
        const [pattern] = textsOf(part);
        const isNegated = /negate:\s+true/.test(part);
        return [...part.matchAll(/val: "([^"]*)", match: (true|false)/g)].map(([, value, match]) =>
          matches(isNegated ? `!${pattern}` : pattern!, value!, match === 'true'),
        );
      }),
    ...['TestFilters', 'TestWildcardFilters', 'TestRangeFilters', 'TestNegationFilter'].flatMap(
      (name) => patternTable(bodyOf(go, name)),
    ),
  ];
}

/** Those where all tags have to match, which is all that rules have. */
function tagsFilterCases(go: string): Case[] {
  const read = (text: string): unknown => parseFilter(text, 'filter');
  const strings = (name: string): string[] =>
    [...bodyOf(go, name).matchAll(/str: ("[^"]*")/g)].map(([, text]) => JSON.parse(text!));
  const errors = textsOf(listOf(bodyOf(go, 'TestParseTagFilterValueMapErrors'), '[]string{'));
  const matching = ['TestTagsFilterMatchesNoNameTag', 'TestTagsFilterMatchesWithNameTag'].flatMap(
    (name) => {
      const conjunction = bodyOf(go, name).split('Disjunction')[0]!;
      const pairs = [...conjunction.matchAll(/"([^"]*)":\s+FilterValue\{Pattern: "([^"]*)"\}/g)];
      const filter = parseFilter(
        pairs
          .map(([, tag, pattern]) => `${tag === 'name' ? '__name__' : tag}:${pattern}`)
          .join(' '),
        'filter',
      );
      return [...conjunction.matchAll(/val: "([^"]*)", match: (true|false)/g)].map(
        ([, text, match]): Case => {
          const [name_, tags] = text!.includes('+') ? text!.split('+') : [null, text!];
          const all = new Map(tags!.split(',').map((pair) => pair.split('=') as [string, string]));
          if (name_ !== null) all.set('__name__', name_!);
          return {
            what: `${text} ${match}`,
            holds: () => filterMatches(filter, all) === (match === 'true'),
          };
        },
      );
    },
  );
  return [
    ...takes(
      [...strings('TestParseTagFilterValueMap'), ...strings('TestValidateTagsFilter')],
      read,
    ),
    ...refuses([...errors, ...strings('TestValidateTagsFilterError')], read),
    ...matching,
  ];
}

function typesOf(names: readonly string[]): string[] {
  return names.map((name) => {
    const type = aggregationTypeOf(name.trim());
    if (type === null) throw new Error(`no type: ${name}`);
    return type;
  });
}

function typeCases(go: string): Case[] {
  const rows = (name: string): string[] =>
    bodyOf(go, name)
      .split(/\n\t\t\{\n/)
      .slice(1);
  const expectedOf = (row: string): string[] =>
    (/expected:\s+Types\{([^}]*)\}/.exec(row)?.[1] ?? '').split(', ').filter((one) => one !== '');
  const strOf = (row: string): string => /str:\s+["`](.*)["`],/.exec(row)![1]!;
  const compared = (row: string, names: readonly string[]): Case => ({
    what: `${strOf(row)} is ${expectedOf(row).join(' ')}`,
    holds: () => String(typesOf(names)) === String(expectedOf(row)),
  });
  const listed = (text: string): string[] => {
    const match = /^\[(.*)\]$/.exec(text);
    if (match === null) throw new Error(`no list: ${text}`);
    return match[1] === '' ? [] : match[1]!.split(',').map((name) => name.replaceAll('"', ''));
  };
  return [
    ...rows('TestParseTypes').map((row) => compared(row, strOf(row).split(','))),
    ...['TestTypesUnMarshalJSON', 'TestTypesUnmarshalYAML'].flatMap((name) =>
      rows(name)
        .filter((row) => strOf(row) !== '')
        .map((row) =>
          row.includes('expectedErr: true')
            ? refuses([strOf(row)], (text) => typesOf(listed(text)))[0]!
            : compared(row, listed(strOf(row))),
        ),
    ),
    ...rows('TestTypeUnmarshalYAML').map((row) =>
      row.includes('expectedErr: true')
        ? refuses([strOf(row)], (text) => typesOf([text]))[0]!
        : takes([strOf(row)], (text) => typesOf([text]))[0]!,
    ),
    ...refuses(
      [...bodyOf(go, 'TestTypesUnmarshalTextError').matchAll(/\t(?:"(.*)"|`(.*)`),/g)].map(
        ([, plain, raw]) => (plain ?? raw)!,
      ),
      (text) => typesOf([text]),
    ),
  ];
}

/** Units as Go names them. */
const unitNanos: Readonly<Record<string, bigint>> = {
  Nanosecond: 1n,
  Millisecond: 1_000_000n,
  Second: 1_000_000_000n,
  Minute: 60_000_000_000n,
  Hour: 3_600_000_000_000n,
};

/** `10*time.Second`, `24 * 7 * time.Hour`. */
function nanosOf(go: string): bigint {
  return go
    .split('*')
    .map((factor) => factor.trim().replace('time.', ''))
    .reduce((product, factor) => product * (unitNanos[factor] ?? BigInt(factor)), 1n);
}

function policyOf(text: string): { resolutionNanos: bigint; retentionNanos: bigint } {
  const rule = { name: 'x', filter: 'app:*', storagePolicies: [text] };
  return mappingRuleOfR2(Fields.of(rule, '')).storagePolicies[0]!;
}

function policyCases(go: string): Case[] {
  const rows = [
    ...bodyOf(go, 'TestParseStoragePolicy').matchAll(
      /str:\s+"(.*)",\s+expected: NewStoragePolicy\(([^,]*), [^,]*, ([^)]*)\)/g,
    ),
  ];
  return [
    ...rows.map(
      ([, text, resolution, retention]): Case => ({
        what: `${text} is ${resolution} and ${retention}`,
        holds: () => {
          const { resolutionNanos, retentionNanos } = policyOf(text!);
          return resolutionNanos === nanosOf(resolution!) && retentionNanos === nanosOf(retention!);
        },
      }),
    ),
    ...refuses(textsOf(listOf(bodyOf(go, 'TestParseStoragePolicyErrors'), '[]string{')), policyOf),
  ];
}

function retentionCases(go: string): Case[] {
  const read = (text: string): bigint => parseDurationNanos(text, 'retention');
  const rows = [
    ...bodyOf(go, 'TestParseRetention').matchAll(/str:\s+"(.*)",\s+expected: Retention\((.*)\),/g),
  ];
  return [
    ...rows.map(
      ([, text, expected]): Case => ({
        what: `${text} is ${expected}`,
        holds: () => read(text!) === nanosOf(expected!),
      }),
    ),
    ...refuses(textsOf(listOf(bodyOf(go, 'TestParseRetentionError'), '[]string{')), read),
  ];
}

function resolutionCases(go: string): Case[] {
  const read = (text: string): bigint => policyOf(`${text}:40d`).resolutionNanos;
  const rows = [
    ...bodyOf(go, 'TestParseResolution').matchAll(
      /str:\s+"(.*)",\s+expected: Resolution\{Window: ([^,]*),/g,
    ),
  ];
  return [
    ...rows.map(
      ([, text, expected]): Case => ({
        what: `${text} is ${expected}`,
        holds: () => read(text!) === nanosOf(expected!),
      }),
    ),
    ...refuses(
      textsOf(listOf(bodyOf(go, 'TestParseResolutionNoPrecisionErrors'), '[]string{')),
      read,
    ),
  ];
}

/** Names of transforms in rules. */
function transformCases(go: string): Case[] {
  return [...go.matchAll(/ParseType\("(.*)"\)/g)].map(([, name]) => ({
    what: `takes ${name}`,
    holds: () => transformTypes.some((type) => type === name),
  }));
}

const files: readonly (readonly [string, (go: string) => Case[]])[] = [
  ['filters/filter_test.go', filterCases],
  ['filters/tags_filter_test.go', tagsFilterCases],
  ['aggregation/type_test.go', typeCases],
  ['policy/storage_policy_test.go', policyCases],
  ['policy/resolution_test.go', resolutionCases],
  ['policy/retention_test.go', retentionCases],
  ['transformation/unary_multi_test.go', transformCases],
];

function main([checkout]: readonly string[]): void {
  if (checkout === undefined) throw new Error('usage: m3_rules.ts CHECKOUT');
  let failed = 0;
  for (const [file, casesOf] of files) {
    const cases = casesOf(readFileSync(join(checkout, 'src/metrics', file), 'utf8'));
    const wrong = cases.filter(({ holds }) => !isTrue(holds));
    failed += wrong.length;
    console.log(`${file}: ${cases.length - wrong.length} of ${cases.length}`);
    for (const { what } of wrong) console.log(`    not: ${what}`);
  }
  process.exitCode = failed === 0 ? 0 : 1;
}

function isTrue(holds: () => boolean): boolean {
  try {
    return holds();
  } catch {
    return false;
  }
}

main(process.argv.slice(2));
