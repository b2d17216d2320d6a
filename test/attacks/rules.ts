/** Aggregation rules that take long to read, to compile, to keep and to list. */
import assert from 'node:assert/strict';
import { SeededRandom } from '../seeded_random.ts';
import { Answers, type Attack, keepDoing, Span, type Target } from './attack.ts';
import { ask, type Reply } from './http.ts';

const setsPath = '/r2/v1/namespaces';
const json = { 'content-type': 'application/json' };

const send = (method: string, path: string, body: unknown) => {
  const text = JSON.stringify(body);
  return ({ ports: { coordinator } }: Target): Promise<Reply> =>
    ask(coordinator, path, { method, body: text, headers: json });
};

interface Written {
  readonly name: string;
}

/** Each as large as one may be: some 2900 instructions. */
const largePattern = 'a{1000}a{1000}a{900}';

const rulesOf = (count: number, rule: (i: number) => object): Written[] =>
  Array.from({ length: count }, (_, i) => ({ name: `r${i}`, ...rule(i) }));

const withPatterns = (count: number, pattern: (i: number) => string): Written[] =>
  rulesOf(count, (i) => ({ path: { pattern: pattern(i) }, storagePolicies: ['1m:2h'] }));

const asFile = (rules: readonly Written[]): object => ({
  mappingRules: rules.map((rule) => ({
    ...rule,
    storagePolicies: [{ resolution: '1m', retention: '2h' }],
  })),
});

const validate = (mappingRules: readonly Written[]) =>
  send('POST', `${setsPath}/attacked/ruleset/validate`, { id: 'attacked', mappingRules });

/** As many patterns as a body has room for, and as many as one set may have. */
const patterns = [
  validate(withPatterns(30_000, () => largePattern)),
  validate(withPatterns(900, (i) => `${largePattern}${i}`)),
  validate(withPatterns(34, (i) => `${largePattern}${i}`)),
  validate(withPatterns(1_000, (i) => `^${'[a-z]+'.repeat(16)}${i}$`)),
  send('PUT', `${setsPath}/attacked/ruleset`, asFile(withPatterns(30_000, () => largePattern))),
  send('POST', `${setsPath}/attacked/ruleset/update`, {
    rulesetChanges: {
      mappingRuleChanges: withPatterns(10_000, () => largePattern).map((ruleData) => ({
        op: 'add',
        ruleData,
      })),
    },
    rulesetVersion: 1,
  }),
];

/** Sets that no series of others is of, as large as they are taken, listed and changed again and again. */
const stored = [
  ...['large_0', 'large_1', 'large_2'].map((name) =>
    send(
      'PUT',
      `${setsPath}/${name}/ruleset`,
      asFile(withPatterns(34, (i) => `${largePattern}${name}${i}`)),
    ),
  ),
  send(
    'PUT',
    `${setsPath}/globs/ruleset`,
    asFile(rulesOf(240, (i) => ({ filter: `app:*${'?'.repeat(4_000)} n:${i}` }))),
  ),
  send(
    'PUT',
    `${setsPath}/choices/ruleset`,
    asFile(rulesOf(100, () => ({ filter: `app:${'{,a}'.repeat(1_000)}` }))),
  ),
  send(
    'PUT',
    `${setsPath}/ordinary/ruleset`,
    asFile(rulesOf(10_000, (i) => ({ filter: `app:service-${i}-*` }))),
  ),
  ({ ports: { coordinator } }: Target) => ask(coordinator, setsPath),
  ({ ports: { coordinator } }: Target) => ask(coordinator, `${setsPath}/ordinary`),
];

const asking = (
  name: string,
  questions: readonly ((target: Target) => Promise<Reply>)[],
): Attack => ({
  name,
  subject: 'rules',
  async run(target, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    await keepDoing(new Span(seconds), 3, async () => {
      const { status, text } = await random.pick(questions)(target);
      answers.note(status);
      assert.notEqual(status, 500, text);
    });
    return answers;
  },
});

export const ruleAttacks: readonly Attack[] = [
  asking('rules of many patterns', patterns),
  asking('sets of rules as large as they are taken', stored),
];
