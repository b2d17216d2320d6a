/** Texts that take long to read: deep ones, wide ones, and ones of many names. */
import type { NodePorts } from '../integration/process.ts';
import { SeededRandom } from '../seeded_random.ts';
import { Answers, type Attack, keepDoing, Span } from './attack.ts';
import { ask, askForm, askQuery, jsonWritePath, queryPath } from './http.ts';

/** Made when they are needed, and kept: a text costs its attacker nothing to send again. */
class Texts<Text> {
  readonly #make: readonly (() => Text)[];
  readonly #made = new Map<number, Text>();

  constructor(make: readonly (() => Text)[]) {
    this.#make = make;
  }

  pick(random: SeededRandom): Text {
    const index = random.below(this.#make.length);
    const text = this.#made.get(index) ?? this.#make[index]!();
    this.#made.set(index, text);
    return text;
  }
}

interface Posted {
  readonly port: (ports: NodePorts) => number;
  readonly path: string;
  readonly body: string;
}

const coordinatorPort = ({ coordinator }: NodePorts): number => coordinator;
const nodePort = ({ httpNode }: NodePorts): number => httpNode;
const clusterPort = ({ httpCluster }: NodePorts): number => httpCluster;

const nested = (open: string, inner: string, close: string, depth: number): string =>
  open.repeat(depth) + inner + close.repeat(depth);

const nodeQuery = (query: string): string =>
  `{"namespace":"default","rangeStart":0,"rangeEnd":1,"query":${query}}`;

const deepBodies = new Texts<Posted>([
  () => ({ port: coordinatorPort, path: jsonWritePath, body: nested('[', '', ']', 4_000_000) }),
  () => ({
    port: coordinatorPort,
    path: jsonWritePath,
    body: nested('{"a":', '1', '}', 2_000_000),
  }),
  () => ({
    port: coordinatorPort,
    path: '/api/v1/kvstore',
    body: `{"key":"tsdb.query.limits","value":${nested('{"a":', '1', '}', 1_000_000)}}`,
  }),
  () => ({
    port: coordinatorPort,
    path: '/api/v1/services/tsdb/placement/init',
    body: `{"instances":${nested('[', '', ']', 4_000_000)}}`,
  }),
  () => ({
    port: nodePort,
    path: '/query',
    body: nodeQuery(nested('{"negation":{"query":', '{"all":{}}', '}}', 200_000)),
  }),
  () => ({
    port: clusterPort,
    path: '/query',
    body: nodeQuery(nested('{"negation":{"query":', '{"all":{}}', '}}', 60)),
  }),
]);

const wideBodies = new Texts<Posted>([
  () => ({
    port: coordinatorPort,
    path: jsonWritePath,
    body: `[${'[],'.repeat(5_000_000)}[]]`,
  }),
  () => ({
    port: coordinatorPort,
    path: jsonWritePath,
    body: `[${'{"x":[1,2,3,4,5,6,7,8,9]},'.repeat(99_999)}{}]`,
  }),
  () => ({
    port: coordinatorPort,
    path: jsonWritePath,
    body: `{"timestamp":1,"value":1,"tags":{${Array.from({ length: 1_000_000 }, (_, i) => `"a${i}":"b"`).join(',')}}}`,
  }),
  () => ({
    port: coordinatorPort,
    path: '/api/v1/kvstore',
    body: `{"key":"tsdb.query.limits","value":[${'[],'.repeat(5_000_000)}[]]}`,
  }),
  () => ({
    port: nodePort,
    path: '/query',
    body: nodeQuery(
      `{"disjunction":{"queries":[${'{"field":{"field":"a"}},'.repeat(300_000)}{"all":{}}]}}`,
    ),
  }),
  () => ({
    port: clusterPort,
    path: '/query',
    body: nodeQuery(
      `{"disjunction":{"queries":[${'{"field":{"field":"a"}},'.repeat(90_000)}{"all":{}}]}}`,
    ),
  }),
]);

const posting = (name: string, texts: Texts<Posted>): Attack => ({
  name,
  subject: 'parsing',
  async run({ ports }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    await keepDoing(new Span(seconds), 2, async () => {
      const { port, path, body } = texts.pick(random);
      answers.note((await ask(port(ports), path, { body })).status);
    });
    return answers;
  },
});

const forms = new Texts<string>([
  () => `${'a&'.repeat(800_000)}query=1`,
  () => `a=1&${'limit&'.repeat(400_000)}`,
  () => 'match[]&'.repeat(900_000),
  () => `query=1&x=${'%41'.repeat(2_500_000)}`,
  () => `query=${'1'.repeat(8_000_000)}`,
]);

const manyNames: Attack = {
  name: 'forms of many names',
  subject: 'parsing',
  async run({ ports: { coordinator } }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const paths = [queryPath, '/api/v1/labels', '/api/v1/series', '/api/v1/format_query'];
    await keepDoing(new Span(seconds), 2, async (round) => {
      const { status } =
        round % 5 === 4
          ? await ask(coordinator, `${queryPath}?${'a&'.repeat(31_000)}query=1`)
          : await askForm(coordinator, random.pick(paths), forms.pick(random));
      answers.note(status);
    });
    return answers;
  },
};

/** A query may have 1 MiB of text. */
const queries = new Texts<string>([
  () => nested('(', '1', ')', 500_000),
  () => nested('(', '1', ')', 5000),
  () => `${'-'.repeat(1_000_000)}1`,
  () => `1${'+1'.repeat(500_000)}`,
  () => `1${'+1'.repeat(900)}`,
  () => `1${'^1'.repeat(500_000)}`,
  () => '}{'.repeat(500_000),
  () => `${'#\n'.repeat(500_000)}1`,
  () => `"${'a'.repeat(1_000_000)}"`,
  () => `marker{${'a="b",'.repeat(140_000)}}`,
  () => `{a=~".+",${'a!="b",'.repeat(130_000)}}`,
  () => `{${'a=~"(b|c)+d",'.repeat(60_000)}z="1"}`,
  () => Array.from({ length: 50_000 }, () => 'marker').join('+'),
  () => `sum by (${Array.from({ length: 100_000 }, (_, i) => `a${i}`).join(',')}) (marker)`,
  () => nested('sum(', 'marker', ')', 100_000),
  () => nested('sum(', 'marker', ')', 200),
]);

const longQueries: Attack = {
  name: 'long queries',
  subject: 'parsing',
  async run({ ports }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    await keepDoing(new Span(seconds), 2, async () => {
      const query = queries.pick(random);
      const { status } =
        random.below(4) === 0
          ? await askForm(ports.coordinator, '/api/v1/format_query', { query })
          : await askQuery(ports, query);
      answers.note(status);
    });
    return answers;
  },
};

export const parsingAttacks: readonly Attack[] = [
  posting('deep JSON', deepBodies),
  posting('wide JSON', wideBodies),
  manyNames,
  longQueries,
];
