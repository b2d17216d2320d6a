/** Queries with long lists of labels, and with texts that multiply. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertNotHeld, countedAside, turnsOf } from '#engine/aside/turning_testing.ts';
import { encodeRawChunk } from '#engine/codec/chunk.ts';
import { emptyBundle, type SeriesBundle } from '#engine/codec/series_bundle.ts';
import { realEnv } from '#lib/env/real.ts';
import { openSessionMemory } from '#lib/read_memory/session_memory.ts';
import { encodeTags, type Tag } from '#lib/tags.ts';
import type { QueryStorage } from '../../select/storage.ts';
import { PromqlEngine, type QueryOptions } from '../engine.ts';

const { signal } = new AbortController();
const options: QueryOptions = {
  lookbackMillis: 300_000,
  samplesMax: 50_000_000,
  limits: { seriesMax: 0, requireExhaustive: true },
};
const noLabels = async () => ({ values: [], exhaustive: true, warnings: [] });

/** @param chunkOf of each series; without one their labels are all that is looked at */
function bundleOf(
  all: readonly (readonly Tag[])[],
  chunkOf: (index: number) => Uint8Array = () => new Uint8Array(0),
): SeriesBundle {
  const chunks = all.map((_, index) => chunkOf(index));
  const chunkOffset = new Uint32Array(all.length + 1);
  chunks.forEach(({ length }, i) => (chunkOffset[i + 1] = chunkOffset[i]! + length));
  const layouts = all.map((tags) => encodeTags(tags));
  const tagsOffset = new Uint32Array(all.length + 1);
  layouts.forEach(({ length }, i) => (tagsOffset[i + 1] = tagsOffset[i]! + length));
  return {
    ...emptyBundle,
    seriesCount: all.length,
    tagsData: Buffer.concat(layouts),
    tagsOffset,
    idScheme: new Uint8Array(all.length),
    idOffset: new Uint32Array(all.length + 1),
    chunkData: Buffer.concat(chunks),
    chunkOffset,
  };
}

function engineOver(
  all: readonly (readonly Tag[])[],
  { aside } = countedAside(),
  chunk?: Uint8Array,
): PromqlEngine {
  const bundle = bundleOf(all, chunk === undefined ? undefined : () => chunk);
  const select = async () => ({ bundle, exhaustive: true, warnings: [] });
  const storage: QueryStorage = {
    select,
    series: select,
    labelNames: noLabels,
    labelValues: noLabels,
  };
  return new PromqlEngine(storage, {
    clock: realEnv.clock,
    aside,
    features: { experimentalFunctions: true, fillModifiers: true },
  });
}

/** Every minute of the first hour. */
const hour = encodeRawChunk({
  timestampNanos: BigInt64Array.from({ length: 60 }, (_, i) => BigInt(i) * 60_000_000_000n + 1n),
  values: Float64Array.from({ length: 60 }, (_, i) => i),
  version: 0,
});

const series = Array.from({ length: 1_000 }, (_, i): Tag[] => [
  { name: '__name__', value: 'm' },
  { name: 'a', value: `v${i}` },
  { name: 'b', value: `${i % 7}` },
]);
const names = (count: number): string =>
  Array.from({ length: count }, (_, i) => `l${i}`).join(', ');
const texts = (count: number): string =>
  Array.from({ length: count }, (_, i) => `"l${i}"`).join(', ');

test('long lists of labels take turns', async () => {
  const engine = engineOver(series);
  for (const query of [
    `m * on (a, ${names(4_000)}) group_left (${names(4_000).replaceAll('l', 'k')}) m`,
    `m and on (a, ${names(8_000)}) m`,
    `label_join(m, "x", "-", ${texts(8_000)})`,
    `sum by (a, ${names(8_000)}) (m)`,
    `sort_by_label(m, ${texts(8_000)})`,
  ]) {
    const seen = await turnsOf(engine.instantQuery(query, 0, options, signal));
    assertNotHeld(seen, query.slice(0, 20));
  }
});

test('texts of labels do not multiply without an end', async () => {
  const engine = engineOver(series);
  const run = (query: string): Promise<unknown> => engine.instantQuery(query, 0, options, signal);
  const long = 'x'.repeat(60_000);
  await assert.rejects(run(`label_join(m, "x", "${long}", ${texts(5_000)})`), {
    code: 'BAD_REQUEST',
    message: /label value of label_join\(\) is longer than 65535 characters/,
  });
  await assert.rejects(run(`label_replace(m, "x", "${'$0'.repeat(300_000)}", "a", "v.*")`), {
    code: 'BAD_REQUEST',
    message: /the text becomes longer than 65535 characters/,
  });
});

test('label_replace() has dear regexps compiled aside, and takes long lists', async () => {
  const counted = countedAside();
  const engine = engineOver(series.slice(0, 20), counted);
  const run = (pattern: string): Promise<unknown> =>
    engine.instantQuery(`label_replace(m, "x", "$1", "a", "${pattern}")`, 0, options, signal);
  await run(`(v.*|${'(?:[^\\\\p{L}]|r)'.repeat(2_000)})`);
  assert.deepEqual(new Set(counted.kinds), new Set(['compile', 'replace']));
  await assert.rejects(run(`(v.*|${'(?:[^\\\\p{L}]|s)'.repeat(2_000)}`), {
    message: /^invalid regular expression in label_replace\(\): error parsing regexp: missing/,
  });
  counted.kinds.length = 0;
  await run(Array.from({ length: 60_000 }, (_, i) => `v${i}`).join('|'));
  assert.deepEqual(counted.kinds, []);
});

test('a query of a million lines tells ten warnings and counts the others, not holding up others', async () => {
  const lines = '\n'.repeat(900_000);
  const each = Array.from({ length: 400 }, (_, i) => `histogram_quantile(${i + 2}, m)`);
  const text = lines + each.join(' or ');
  const query = engineOver(series).rangeQuery(text, 0, 1000, 1000, options, signal);
  const seen = await turnsOf(query);
  const { warnings } = seen.answer;
  const quantiles = warnings.filter((warning) => warning.includes('quantile value'));
  assert.ok(quantiles.length >= 9 && warnings.length === 11, `${warnings.length}`);
  assert.match(warnings.at(-1)!, /^\d+ more warning annotations omitted$/);
  assert.match(quantiles[0]!, / \(900001:20\)$/);
  assertNotHeld(seen);
});

test('the buckets of many histograms take turns', async () => {
  const buckets = Array.from({ length: 60_000 }, (_, i): Tag[] => [
    { name: '__name__', value: 'm' },
    { name: 'le', value: `${i % 10}` },
    { name: 'path', value: `/a/path/of/some/length/${Math.floor(i / 10)}` },
  ]);
  const engine = engineOver(buckets, countedAside(), hour);
  const query = 'count(histogram_quantile(0.9, m))';
  const found = await turnsOf(engine.instantQuery(query, 1_800_000, options, signal));
  assert.equal(found.answer.series()[0]!.points[0]!.value, 6_000);
  assertNotHeld(found);
});

test('quantiles that change at each step take no more memory than their answer', async () => {
  const buckets = ['1', '10', '+Inf'].map((le): Tag[] => [
    { name: '__name__', value: 'm' },
    { name: 'le', value: le },
  ]);
  const engine = engineOver(buckets, countedAside(), hour);
  const query = 'count(histogram_quantiles(m, "q", time() / 3600, 0.123))';
  const few = { ...options, samplesMax: 200_000 };
  const seen = await turnsOf(engine.rangeQuery(query, 60_000, 3_540_000, 2_000, few, signal));
  const { points } = seen.answer.series()[0]!;
  assert.equal(points.length, 1741);
  assert.deepEqual(new Set(points.map(({ value }) => value)), new Set([2]));
  assertNotHeld(seen);
  await assert.rejects(
    engine.instantQuery('histogram_quantiles(m, "", 0.5)', 1_800_000, options, signal),
    { message: 'invalid quantile label name in histogram_quantiles(): ' },
  );
});

test('a query of many selectors reads some of them at a time, and no more once one has failed', async () => {
  let running = 0;
  let most = 0;
  let asked = 0;
  const select: QueryStorage['select'] = async ([matcher]) => {
    running += 1;
    asked += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setImmediate(resolve));
    running -= 1;
    if (matcher!.value === 'bad') throw new Error('a shard is away');
    return { bundle: bundleOf([]), exhaustive: true, warnings: [] };
  };
  const storage = { select, series: select, labelNames: noLabels, labelValues: noLabels };
  const engine = new PromqlEngine(storage as unknown as QueryStorage, { clock: realEnv.clock });
  const sum = Array.from({ length: 500 }, (_, i) => `m${i}`).join(' + ');
  await engine.instantQuery(sum, 0, options, signal);
  assert.deepEqual([asked, most], [500, 32]);
  asked = 0;
  await assert.rejects(engine.instantQuery(`bad + ${sum}`, 0, options, signal), /a shard is away/);
  assert.ok(asked <= 32, `${asked}`);
});

test('a series of two million rows takes turns, answered as it is or counted', async () => {
  const chunkOf = (first: number): Uint8Array =>
    encodeRawChunk({
      timestampNanos: BigInt64Array.from(
        { length: 65_536 },
        (_, i) => BigInt(first + i) * 1_000_000_000n,
      ),
      values: Float64Array.from({ length: 65_536 }, (_, i) => i),
      version: 0,
    });
  const chunks = Buffer.concat(Array.from({ length: 32 }, (_, i) => chunkOf(65_536 * i)));
  const engine = engineOver([[{ name: '__name__', value: 'm' }]], countedAside(), chunks);
  const end = 2 ** 21 * 1000 - 1000;
  const raw = await turnsOf(engine.instantQuery('m[30d]', end, options, signal));
  assertNotHeld(raw, 'as it is');
  const { value } = raw.answer;
  assert.ok(value.kind === 'rawMatrix');
  const { count, timestampMillis, values } = value.series[0]!.floats;
  assert.deepEqual([count, timestampMillis[0], values[65_537]], [2 ** 21, 0, 1]);
  assert.ok(timestampMillis.every((millis, row) => millis === 1000 * row));
  const counted = await turnsOf(
    engine.instantQuery('m[30d]', end, { ...options, countsSamples: true }, signal),
  );
  assert.equal(counted.answer.stats.samples!.total[0], 2 ** 21);
  assertNotHeld(counted, 'counted');
});

test('large matrices are made in turns', async () => {
  const many = Array.from({ length: 10_000 }, (_, i): Tag[] => [
    { name: '__name__', value: 'm' },
    { name: 'path', value: `/${i}` },
  ]);
  const engine = engineOver(many, countedAside(), hour);
  for (const query of ['m or m', 'avg by (path) (m)']) {
    const more = { ...options, samplesMax: 100_000_000 };
    const run = () => engine.rangeQuery(query, 0, 3_540_000, 3_540, more, signal);
    const seen = await turnsOf(run());
    assert.equal(seen.answer.series().length, 10_000);
    assertNotHeld(seen, query);
  }
});

test('pairs of series that match are counted as memory', async () => {
  const rowAt = (minute: number): Uint8Array =>
    encodeRawChunk({
      timestampNanos: BigInt64Array.of(BigInt(minute) * 60_000_000_000n + 1n),
      values: Float64Array.of(1),
      version: 0,
    });
  const seriesOf = (count: number, name: string): Tag[][] =>
    Array.from({ length: count }, (_, i) => [
      { name: '__name__', value: name },
      { name: name === 'm' ? 'a' : 'b', value: `${i}` },
    ]);
  // One of the right side has a value at each step, each time another one.
  const bundles = {
    m: bundleOf(seriesOf(4_000, 'm'), () => hour),
    n: bundleOf(seriesOf(40, 'n'), rowAt),
  };
  const select: QueryStorage['select'] = async ([matcher]) => ({
    bundle: bundles[matcher!.value as 'm' | 'n'],
    exhaustive: true,
    warnings: [],
  });
  const storage = { select, series: select, labelNames: noLabels, labelValues: noLabels };
  const engine = new PromqlEngine(storage as unknown as QueryStorage, { clock: realEnv.clock });
  const run = async (mebibytes: number) => {
    using memory = openSessionMemory(realEnv.clock, mebibytes << 20).begin();
    return await engine.rangeQuery(
      'count(m * on () group_left (b) n)',
      0,
      39 * 60_000,
      60_000,
      { ...options, lookbackMillis: 1_000, limits: { ...options.limits, memory } },
      signal,
    );
  };
  const { length } = (await run(400)).series()[0]!.points;
  assert.equal(length, 40);
  await assert.rejects(run(32), { code: 'BAD_REQUEST', message: /maxReadBytesInFlight/ });
});
