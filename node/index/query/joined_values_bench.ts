/** Cost of paths of a tree of a thousand racks with a thousand series each, level by level. */
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { encodeTags } from '#lib/tags.ts';
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { NamespaceIndex } from '../namespace_index.ts';

const range = { startNanos: 0n, endNanos: 1_000n };
const noId = new Uint8Array(0);
const repetitions = 5;

const nodeTag = (node: number): string => `__g${node}__`;
const is = (node: number, term: string): IndexQuery => ({
  kind: 'term',
  field: nodeTag(node),
  term,
});
const matches = (node: number, regexp: string): IndexQuery => ({
  kind: 'regexp',
  field: nodeTag(node),
  regexp,
});
const and = (...queries: IndexQuery[]): IndexQuery => ({ kind: 'conjunction', queries });

const questions: readonly (readonly [pattern: string, levels: number, query: IndexQuery])[] = [
  ['dc1.rack*.host5', 3, and(is(0, 'dc1'), matches(1, 'rack.*'), is(2, 'host5'))],
  ['*.rack1.*', 3, is(1, 'rack1')],
  ['dc*.rack{1,2,3}.h*', 3, and(matches(0, 'dc.*'), matches(1, 'rack(1|2|3)'), matches(2, 'h.*'))],
  ['dc1.*.*.metric1', 4, and(is(0, 'dc1'), is(3, 'metric1'))],
  ['*.*', 2, { kind: 'all' }],
  ['*.*.*', 3, { kind: 'all' }],
];

/** Of a thousand paths a rack: `dc1.rack2.host3.metric4`. */
function pathIndex(racks: number): NamespaceIndex {
  const index = new NamespaceIndex({ random: new SeededRandom(1), blockSizeNanos: 1_000n });
  const seriesCount = racks * 1_000;
  for (let i = 0; i < seriesCount; i++) {
    const rack = Math.floor(i / 1_000);
    const nodes = [
      `dc${rack % 10}`,
      `rack${Math.floor(rack / 10)}`,
      `host${Math.floor(i / 10) % 100}`,
      `metric${i % 10}`,
    ];
    const tags = encodeTags(nodes.map((value, node) => ({ name: nodeTag(node), value })));
    index.insert(i, tags, idSchemeCode.path, noId, i % 64);
    index.markLiveOne(i, 0n);
  }
  return index;
}

export async function bench(size: BenchSize): Promise<BenchResult[]> {
  const index = pathIndex(size === 'full' ? 1_000 : 10);
  return questions.map(([pattern, levels, query]) => {
    const tagNames = Array.from({ length: levels }, (_, node) => nodeTag(node));
    const options = { tagNames, namesOnly: false, joined: true, limit: 0, shards: null };
    index.aggregate(query, range, options);
    const before = process.cpuUsage();
    for (let i = 0; i < repetitions; i++) index.aggregate(query, range, options);
    const { user, system } = process.cpuUsage(before);
    const value = Number(((user + system) / 1_000 / repetitions).toPrecision(3));
    return { name: `node/index: paths ${pattern}`, unit: 'CPU ms', value };
  });
}
