import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Options } from '../command.ts';
import { compareAnswers, isSame, partialReasonOf } from './answers.ts';
import { compareCommands } from './commands.ts';
import { queriesOf, queriesOfText } from './queries.ts';

const metric = { __name__: 'up', job: 'a', zone: 'z' };

test('answers are the same whatever the order of series, and of the last digits', () => {
  const other = { __name__: 'up', job: 'b' };
  const a = [
    {
      metric,
      values: [
        [1, '0.1'],
        [2, 'NaN'],
      ] as [number, string][],
    },
    { metric: other, values: [[1, '3']] as [number, string][] },
  ];
  const b = [
    { metric: other, values: [[1, '3']] as [number, string][] },
    {
      metric: { zone: 'z', job: 'a', __name__: 'up' },
      values: [
        [1, '0.10000000000000002'],
        [2, 'NaN'],
      ] as [number, string][],
    },
  ];
  const found = compareAnswers(a, b);
  assert.deepEqual(found, { equal: 3, different: 0, onlyInA: 0, onlyInB: 0, first: '' });
  assert.ok(isSame(found));
});

test('what differs is counted, and the first of it told', () => {
  const a = [
    {
      metric,
      values: [
        [1, '1'],
        [2, '2'],
        [3, '3'],
      ] as [number, string][],
    },
    { metric: { __name__: 'only' }, values: [[1, '1']] as [number, string][] },
  ];
  const b = [
    {
      metric,
      values: [
        [1, '1'],
        [2, '2.001'],
        [4, '4'],
      ] as [number, string][],
    },
  ];
  const found = compareAnswers(a, b);
  assert.deepEqual(found, {
    equal: 1,
    different: 1,
    onlyInA: 2,
    onlyInB: 1,
    first: 'up{job="a",zone="z"} at 2: 2 and 2.001',
  });
  assert.ok(!isSame(found));
  assert.equal(compareAnswers([], b).first, 'up{job="a",zone="z"} is in the second alone');
});

test('an answer says that it is a part, and what an engine notes about a query does not', () => {
  const reason = (warnings: readonly string[], headers: Record<string, string> = {}) =>
    partialReasonOf({ warnings }, new Headers(headers));
  const notes = [
    'PromQL warning: quantile value should be between 0 and 1, got 2 (1:10)',
    'PromQL info: metric might not be a counter, name does not end in _total: "up" (1:6)',
    '3 more warning annotations omitted',
  ];
  assert.equal(partialReasonOf({}, undefined), '');
  assert.equal(
    reason(notes, { 'TSDB-Results-Limited': notes.join(',').replaceAll(', ', ' ') }),
    '',
  );
  assert.equal(
    reason([...notes, 'results truncated due to limit']),
    'results truncated due to limit',
  );
  const limited = 'max_fetch_series_limit_applied';
  assert.equal(reason([], { 'M3-Results-Limited': limited }), limited);
  assert.equal(
    reason(notes, { 'TSDB-Results-Limited': `${notes[0]!.replace(',', ' ')},${limited}` }),
    limited,
  );
  const returned = (isCut: boolean) => ({
    'M3-Returned-Data-Limited': `{"Series":3,"Datapoints":9,"TotalSeries":4,"Limited":${isCut}}`,
  });
  assert.equal(reason([], returned(false)), '');
  assert.match(reason([], returned(true)), /fewer series or values/);
});

test('a query that one of two answers in part is not the same, and the call is no success', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-compare-'));
  const queries = join(folder, 'queries');
  writeFileSync(queries, 'whole\ncut\n');
  const open = async (limits: boolean) => {
    const server = createServer((request, response) => {
      const isCut = limits && request.url!.includes('query=cut');
      if (isCut) response.setHeader('M3-Results-Limited', 'max_fetch_series_limit_applied');
      const data = { resultType: 'matrix', result: [{ metric, values: [[1, '1']] }] };
      response.end(JSON.stringify({ status: 'success', data }));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  };
  const all = [await open(false), await open(false), await open(true)] as const;
  const [one, other, limited] = all;
  const compare = async (first: string, second: string) => {
    const lines: string[] = [];
    const options = {
      from: '1',
      to: '2',
      step: '1m',
      queries,
      count: '100',
      rows: false,
      header: [],
    };
    const code = await compareCommands['compare']!.run({
      options: options as unknown as Options,
      given: [],
      operands: [first, second],
      usage: '',
      print: (line) => void lines.push(line),
    });
    return { code, lines };
  };
  assert.deepEqual(await compare(one.url, other.url), {
    code: 0,
    lines: ['2 of 2 queries have the same answer, 2 values are equal'],
  });
  for (const urls of [
    [one.url, limited.url],
    [limited.url, one.url],
  ] as const) {
    assert.deepEqual(await compare(...urls), {
      code: 1,
      lines: [
        `in part  cut\n  ${limited.url}: max_fetch_series_limit_applied`,
        '1 of 2 queries have the same answer, 1 values are equal, 1 are answered in part, which says nothing',
      ],
    });
  }
  for (const { server } of all) server.close();
  rmSync(folder, { recursive: true });
});

test('queries are made of metrics and tags, or stand in a file', () => {
  const take = (names: string[], tags: string[], count: number, empty: string[] = []): string[] => {
    const queries = queriesOf(names, tags);
    const taken: string[] = [];
    let next = queries.next();
    while (next.done !== true && taken.length < count) {
      taken.push(next.value);
      next = queries.next(!empty.includes(next.value));
    }
    return taken;
  };
  const made = take(['a', 'b', 'bad-name'], ['__name__', 'host'], 5);
  assert.deepEqual(made, ['a', 'sum(b)', 'sum(a)', 'avg by (host) (b)', 'avg by (host) (a)']);
  const all = take(['a'], ['x', 'y'], 1000);
  assert.ok(all.length > 50 && new Set(all).size === all.length);
  // What has no value in the range is not asked for again.
  const some = take(['old', 'a'], ['x'], 1000, ['old']);
  assert.deepEqual(some.slice(0, 2), ['old', 'sum(a)']);
  assert.ok(some.slice(1).every((query) => !query.includes('old')));
  assert.deepEqual(queriesOfText('# note\none\tup == 1\n\nsum(x)\n'), ['up == 1', 'sum(x)']);
  assert.deepEqual(queriesOfText('name\t3600\t15\tup ==\t1'), ['up ==\t1']);
});
