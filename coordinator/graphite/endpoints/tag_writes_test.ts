import assert from 'node:assert/strict';
import { test } from 'node:test';
import { turningOf } from '#engine/aside/turning_testing.ts';
import { unlimitedReadBytes } from '#lib/read_memory/read_memory.ts';
import { tagMultiSeries, tagSeries } from './tag_writes.ts';

const request = {
  method: 'POST',
  pathParameters: {},
  urlParameters: new URLSearchParams(),
  header: () => '',
  signal: new AbortController().signal,
  readMemory: unlimitedReadBytes,
};

test('tags of a path have the limits of series', async () => {
  const pathOf = (tags: number) =>
    `m${Array.from({ length: tags }, (_, k) => `;t${k}=v`).join('')}`;
  const most = new URLSearchParams({ path: pathOf(1_024) });
  assert.match(tagSeries(null, request, most).body as string, /^"m;t0=v;t1000=v;t1001=v;/);
  const setup = { turningOf: () => turningOf() };
  for (const [path, reason] of [
    [pathOf(1_025), /path: has 1025 tags, more than 1024: m;t0=v/],
    [pathOf(100_000), /path: has \d+ characters, more than 65535: m;t0=v/],
    [`m;t=${'x'.repeat(65_535)}`, /path: has 65539 characters, more than 65535/],
  ] as const) {
    const parameters = new URLSearchParams({ path });
    assert.throws(() => tagSeries(null, request, parameters), reason);
    await assert.rejects(tagMultiSeries(setup, request, parameters), reason);
  }
});
