import assert from 'node:assert/strict';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { onTheLoop } from '#engine/aside/aside.ts';
import type { ApiAnswer } from '../../http/http_api.ts';
import { partsOf } from '../series/making_testing.ts';
import type { FoundNode } from '../storage/finder.ts';
import { expand } from './find.ts';

const settings = {
  timeoutMillis: 60_000,
  lookbackMillis: 0,
  seriesMax: 0,
  rangeMillisMax: 0,
  requireExhaustive: false,
};

/** Every pattern finds the same nodes. */
function expanding(nodes: readonly FoundNode[]) {
  const parts = partsOf();
  const memory = { ...unlimitedReadBytes, taken: 0 };
  const source = {
    find: async () => nodes,
    findNames: async () => nodes,
    leaves: async () => [],
    warnings: new Set<string>(),
    isExhaustive: true,
  };
  const ask = async (query: string): Promise<ApiAnswer> => {
    const parameters = new URLSearchParams(query);
    const request = {
      method: 'GET',
      pathParameters: {},
      urlParameters: parameters,
      header: () => '',
      signal: new AbortController().signal,
      readMemory: {
        ...unlimitedReadBytes,
        grow: async (bytes: number) => {
          memory.taken += bytes;
        },
      },
    };
    const turningOf = () => ({ work: parts.work, aside: onTheLoop });
    const setup = { source: () => source, settings, clock: realEnv.clock, turningOf };
    return await expand(setup, request, parameters);
  };
  return { ask, memory, parts };
}

const jsonOf = ({ body }: ApiAnswer) =>
  JSON.parse(Buffer.concat([...(body as Iterable<Uint8Array>)]).toString()) as unknown;

test('paths that several patterns find are told once, or for each of them', async () => {
  const { ask } = expanding([
    { path: 'a.b', isLeaf: false },
    { path: 'a.b', isLeaf: true },
    { path: 'a.c', isLeaf: false },
  ]);
  assert.deepEqual(jsonOf(await ask('query=a.*&query=a.%3F')), { results: ['a.b', 'a.c'] });
  assert.deepEqual(jsonOf(await ask('query=a.*&query=a.%3F&groupByExpr=1&leavesOnly=1')), {
    results: { 'a.*': ['a.b'], 'a.?': ['a.b'] },
  });
  assert.deepEqual(jsonOf(await ask('')), { results: [] });
});

test('what is found is counted as memory, put in order in parts, and has a limit', async () => {
  const nodes = Array.from({ length: 30_000 }, (_, k) => ({ path: `a.n${k}`, isLeaf: true }));
  const sorted = nodes.toSorted((a, b) => (a.path < b.path ? -1 : 1));
  const { ask, memory, parts } = expanding(sorted);
  const answer = await ask('query=a.*&query=a.n*');
  const lengths = [...(answer.body as Iterable<Uint8Array>)].map(({ length }) => length);
  assert.ok(lengths.length > 3 && Math.max(...lengths) < 100_000, lengths.join());
  assert.ok(memory.taken > 60_000 * 64, `${memory.taken} bytes`);
  assert.ok(parts.pauses() > 50, `${parts.pauses()} pauses`);
  const many = Array.from({ length: 34 }, () => 'query=a.*').join('&');
  await assert.rejects(
    ask(many),
    (error) =>
      error instanceof TsdbError &&
      error.code === 'BAD_REQUEST' &&
      /query: finds more than 1000000 paths: 10\d{5}$/.test(error.message),
  );
});
