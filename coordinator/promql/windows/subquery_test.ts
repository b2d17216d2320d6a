import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { AsideThread } from '#engine/aside/aside.ts';
import { assertNotHeld, turnsOf } from '#engine/aside/turning_testing.ts';
import { emptyBundle } from '#engine/codec/series_bundle.ts';
import { realEnv } from '#lib/env/real.ts';
import type { QueryStorage } from '../../select/storage.ts';
import { PromqlEngine, type QueryOptions } from '../engine.ts';
import { stepsAtOnce } from './subquery.ts';

const { signal } = new AbortController();
const nothing = async () => ({ bundle: emptyBundle, exhaustive: true, warnings: [] });
const noLabels = async () => ({ values: [], exhaustive: true, warnings: [] });
const storage: QueryStorage = {
  select: nothing,
  series: nothing,
  labelNames: noLabels,
  labelValues: noLabels,
};
const aside = new AsideThread(realEnv.clock);
const engine = new PromqlEngine(storage, {
  clock: realEnv.clock,
  aside,
  features: { experimentalFunctions: true },
});
const options: QueryOptions = {
  lookbackMillis: 300_000,
  samplesMax: 50_000_000,
  limits: { seriesMax: 0, requireExhaustive: true },
};
const seconds = 2_000_000;

/** By labels; what is left of a subquery over `long` steps that ends at second `seconds`. */
async function valuesOf(query: string, over: Partial<QueryOptions> = {}) {
  const all = { ...options, ...over };
  const result = await engine.instantQuery(query, seconds * 1000, all, signal);
  return new Map(
    result
      .series()
      .map(({ labels, points }) => [labels.toString(), points.map((p) => p.value as number)]),
  );
}

const valueOf = async (query: string): Promise<number | undefined> =>
  (await valuesOf(query)).values().next().value?.[0];

after(() => aside[Symbol.asyncDispose]());

/** More than two parts, the last of them short. */
const long = 2 * stepsAtOnce + 1000;
const from = seconds - long + 1;
/** Of whole numbers from the first to the last second. */
const sumOfTimes = ((from + seconds) * long) / 2;

test('a subquery that is evaluated in parts has every step once', async () => {
  assert.equal(await valueOf(`count_over_time(vector(1)[${long}s:1s])`), long);
  assert.equal(await valueOf(`sum_over_time(vector(time())[${long}s:1s])`), sumOfTimes);
  assert.equal(await valueOf(`min_over_time(vector(time())[${long}s:1s])`), from);
  assert.equal(await valueOf(`last_over_time(vector(time())[${long}s:1s])`), seconds);
  assert.equal(await valueOf(`changes(vector(time())[${long}s:1s])`), long - 1);
});

test('windows inside of a part reach back over its beginning', async () => {
  const inner = `min_over_time(vector(time())[100s:1s])`;
  const expected = sumOfTimes - 99 * long;
  assert.equal(await valueOf(`sum_over_time(${inner}[${long}s:1s])`), expected);
  const shifted = `max_over_time(vector(time())[100s:10s] offset 7s)`;
  const inSteps = (at: number): number => 10 * Math.floor((at - 7) / 10);
  let sum = 0;
  for (let at = from; at <= seconds; at++) sum += inSteps(at);
  assert.equal(await valueOf(`sum_over_time(${shifted}[${long}s:1s])`), sum);
});

test('series that are there in some parts only are whole', async () => {
  const middle = from + stepsAtOnce + 17;
  const of = (condition: string, name: string): string =>
    `label_replace(vector(time()) ${condition} ${middle}, "half", "${name}", "", "")`;
  const both = `${of('<', 'first')} or ${of('>=', 'second')}`;
  const counts = await valuesOf(`count_over_time((${both})[${long}s:1s])`);
  assert.deepEqual(Object.fromEntries(counts), {
    '{half="first"}': [middle - from],
    '{half="second"}': [seconds - middle + 1],
  });
  const raw = await valuesOf(`(${both})[${long}s:1s]`);
  assert.equal(raw.get('{half="first"}')!.length, middle - from);
  assert.deepEqual(raw.get('{half="second"}')!.slice(0, 2), [middle, middle + 1]);
});

test('what is pinned to a time is the same in every part', async () => {
  const pinned = `max_over_time(vector(time())[50s:1s] @ 1000)`;
  assert.equal(await valueOf(`sum_over_time(${pinned}[${long}s:1s])`), 1000 * long);
});

test('rows that are too dear for the loop are the same when they are made aside', async () => {
  const dear = 4_000_000;
  const query = (name: string): string => `${name}(vector(time() % 1000)[${dear}s:1s] @ 4e6)`;
  const q = `quantile_over_time(0.5, vector(time() % 1000)[${dear}s:1s] @ 4e6)`;
  assert.equal(await valueOf(q), 499.5);
  assert.equal(await valueOf(query('sum_over_time')), (dear / 1000) * ((999 * 1000) / 2));
  assert.equal(await valueOf(query('mad_over_time')), 250);
});

test('the loop goes on while a long subquery is evaluated', async () => {
  const query = `sum_over_time((vector(time()) * 2 + 1)[${8 * stepsAtOnce}s:1s] @ 3e6)`;
  const { turns } = await turnsOf(valueOf(query));
  assert.ok(turns >= 8, `${turns}`);
});

test('so it does while many operators follow each other over a long subquery', async () => {
  const steps = stepsAtOnce;
  const inner = seconds - (steps - 1) / 2;
  for (const [chain, value] of [
    [`vector(time())${' + 1'.repeat(600)}`, inner + 600],
    [`vector(time()${' + time()'.repeat(200)})`, 201 * inner],
    [`vector(time())${' + vector(time())'.repeat(200)}`, 201 * inner],
    [`${'abs('.repeat(200)}vector(time())${')'.repeat(200)}`, inner],
  ] as const) {
    const seen = await turnsOf(valueOf(`avg_over_time((${chain})[${steps}s:1s])`));
    const begin = chain.slice(0, 30);
    assert.ok(Math.abs(seen.answer! / value - 1) < 1e-9, `${begin}: ${seen.answer} ${value}`);
    assertNotHeld(seen, begin);
  }
});

test('a query that is out of time ends inside of one row, and leaves the thread to others', async () => {
  const nested = 'sum_over_time(sum_over_time(vector(1)[1d:1s])[1d:1s])';
  const late = { timeoutMillis: 400 };
  await assert.rejects(valuesOf(nested, late), { code: 'DEADLINE_EXCEEDED' });
  assert.equal(await valueOf('count_over_time(vector(1)[4000000s:1s] @ 4e6)'), 4_000_000);
});
