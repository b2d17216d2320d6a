import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { nodeTag } from '#lib/series_id/from_tags.ts';
import { Turns } from '#lib/turns/turns.ts';
import type { Matcher } from '../../select/storage.ts';
import { GraphiteFinder } from './finder.ts';
import { parsePathPattern } from './path_pattern.ts';

test('one long path does not have all others looked at again for each of its nodes', async () => {
  const long = Array.from({ length: 50 }, (_, node) => `n${node}`);
  const series = [['a', 'b'], ['a', 'c', 'd'], ['a'], long];
  let looked = 0;
  const takes = (nodes: readonly string[], { name, kind, value }: Matcher): boolean => {
    const own = nodes.find((_, node) => nodeTag(node) === name) ?? '';
    if (kind === '=~') return new RegExp(`^(?:${value})$`).test(own);
    return (own === value) === (kind === '=');
  };
  const answer = (values: readonly string[]) => ({ values, exhaustive: true, warnings: [] });
  const finder = new GraphiteFinder({
    storage: {
      labelNames: async () => answer(long.map((_, node) => nodeTag(node))),
      labelValues: async () => answer([]),
      joinedValues: async (_names, [matchers]) => {
        const found = series.filter((nodes) => matchers!.every((each) => takes(nodes, each)));
        looked += found.length;
        return answer(found.map((nodes) => nodes.join('.')));
      },
    },
    limits: { seriesMax: 0, requireExhaustive: false },
    range: { startNanos: 0n, endNanos: 1n },
    work: Turns.of(realEnv.clock).begin(new AbortController().signal),
  });
  const expected = series.map((nodes) => nodes.join('.')).sort();
  assert.deepEqual(await finder.leaves(), expected);
  assert.equal(looked, series.length);
  assert.deepEqual(await finder.find(parsePathPattern('**.d'), 'path'), [
    { path: 'a.c.d', isLeaf: true },
  ]);
});
