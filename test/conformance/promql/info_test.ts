/** `info` over a storage in memory: own scripts in promqltest's form, and what it reads. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allFeatures } from '#coordinator/promql/parse/features.ts';
import { PromqlEngine } from '#coordinator/promql/engine.ts';
import type { QueryOptions } from '#coordinator/promql/engine.ts';
import type { Matcher, QueryStorage, SelectRange } from '#coordinator/select/storage.ts';
import { realEnv } from '#lib/env/real.ts';
import type { ReadBytes } from '#lib/read_memory/read_memory.ts';
import { MemoryStorage } from './memory_storage.ts';
import { runScript } from './run_script.ts';

const features = { ...allFeatures, typeAndUnitLabels: false };
const options = {
  lookbackMillis: 300_000,
  samplesMax: 50_000_000,
  limits: { seriesMax: 0, requireExhaustive: true },
};
const { signal } = new AbortController();

/** All of them pass in Prometheus 3.15 as well. */
const scripts: Readonly<Record<string, string>> = {
  'of two info series of a target the one with the newest sample counts': `
load 1m
  up{job="j", instance="a"} 1 2 3 4 5 6
  target_info{job="j", instance="a", zone="x"} 1 _ 1 _ 1 stale
  target_info{job="j", instance="a", zone="y"} _ 1 _ 1 _ _

eval range from 0 to 5m step 1m info(up)
  up{job="j", instance="a", zone="x"} 1 _ 3 _ 5 _
  up{job="j", instance="a", zone="y"} _ 2 _ 4 _ 6

eval range from 0 to 5m step 1m info(up, {rack=~".*"})
  up{job="j", instance="a"} 1 2 3 4 5 6

eval range from 3m to 5m step 1m info(up offset 2m)
  up{job="j", instance="a", zone="y"} 2 _ 4
  up{job="j", instance="a", zone="x"} _ 3 _
`,
  'labels of every info metric are taken, and the newest is chosen of each alone': `
load 1m
  up{job="j", instance="a"} 1 2 3
  target_info{job="j", instance="a", zone="x"} 1 1 _
  target_info{job="j", instance="a", zone="y"} _ _ 1
  build_info{job="j", instance="a", version="1"} 1 _ _
  build_info{job="j", instance="a", version="2"} _ 1 1

eval range from 0 to 2m step 1m info(up, {__name__=~".+_info"})
  up{job="j", instance="a", zone="x", version="1"} 1 _ _
  up{job="j", instance="a", zone="x", version="2"} _ 2 _
  up{job="j", instance="a", zone="y", version="2"} _ _ 3

eval range from 0 to 2m step 1m info(up, {__name__=~".+_info", version=~".*", zone!="x"})
  up{job="j", instance="a", version="1"} 1 _ _
  up{job="j", instance="a", version="2"} _ 2 _
  up{job="j", instance="a", zone="y", version="2"} _ _ 3

eval range from 0 to 2m step 1m info(up, {__name__!="target_info", version="2"})
  up{job="j", instance="a", version="2"} _ 2 3
`,
  'two info series with samples of the same time are an error where the input has values': `
load 1m
  up{job="j", instance="a"} _ 2
  up{job="k", instance="b"} _ 2
  target_info{job="j", instance="b", zone="x"} 1
  target_info{job="j", instance="b", zone="y"} 1
  target_info{job="k", instance="b", zone="z"} 1 1

eval instant at 1m info(up{job="k"})
  up{job="k", instance="b", zone="z"} 2

eval range from 0 to 1m step 1m info(up{instance="a"})
  up{job="j", instance="a"} _ 2

eval range from 0 to 0 step 1m info(up)

# No series is of their target, but one has its job and one its instance.
eval instant at 1m info(up)
  expect fail msg: found duplicate series for info metric: existing {__name__="target_info", instance="b", job="j", zone="x"} @ 0, new {__name__="target_info", instance="b", job="j", zone="y"} @ 0
`,
  'info metrics that contradict each other are an error, but about what a series says itself': `
load 1m
  up{job="j", instance="a"} 1
  up{job="j", instance="a", zone="own"} 2
  target_info{job="j", instance="a", zone="x", rack="r"} 1
  build_info{job="j", instance="a", zone="y", rack="r"} 1

eval instant at 0 info(up, {__name__=~".+_info"})
  expect fail msg: conflicting label: zone

eval instant at 0 info(up, {__name__=~".+_info", rack="r"})
  up{job="j", instance="a", rack="r"} 1
  up{job="j", instance="a", zone="own", rack="r"} 2

eval instant at 0 info(up{zone="own"}, {__name__=~".+_info"})
  up{job="j", instance="a", zone="own", rack="r"} 2
`,
  'series that become the same are an error': `
load 1m
  up{job="j", instance="a"} 1 2
  up{job="j", instance="a", zone="x"} 1 _
  target_info{job="j", instance="a", zone="x"} 1 1

eval instant at 0 info(up)
  expect fail msg: vector cannot contain metrics with the same labelset

eval range from 10m to 11m step 1m info(up)
`,
  'matchers that want a label leave out what has no info series': `
load 1m
  up{job="j", instance="a"} 1 2 3
  up{job="j", instance="b"} 4 5 6
  up 7 8 9
  target_info{job="j", instance="a", zone="x"} _ 1 stale
  target_info{zone="of none"} 1 1 1

eval range from 0 to 2m step 1m info(up, {zone="x"})
  up{job="j", instance="a", zone="x"} _ 2 _

eval range from 0 to 2m step 1m info(up, {zone!="y"})
  up{job="j", instance="a"} 1 _ 3
  up{job="j", instance="a", zone="x"} _ 2 _
  up{job="j", instance="b"} 4 5 6
  up 7 8 9

eval range from 0 to 2m step 1m info(up, {"target_info"})
  up{job="j", instance="a"} 1 _ 3
  up{job="j", instance="a", zone="x"} _ 2 _
  up{job="j", instance="b"} 4 5 6
  up 7 8 9

# All are info series, or have no target.
eval instant at 0 info({__name__=~"up|target_info", job=""}, {zone="x"})
  target_info{zone="of none"} 1
`,
  'targets are told apart whatever characters name them': `
load 1m
  up{job="j.*", instance="[::1]:9100"} 1
  up{job="j", instance="a|b"} 2
  target_info{job="j.*", instance="[::1]:9100", zone="x"} 1
  target_info{job="j", instance="a|b", zone="y"} 1
  target_info{job="j", instance="a", zone="z"} 1

eval instant at 0 info(up)
  up{job="j.*", instance="[::1]:9100", zone="x"} 1
  up{job="j", instance="a|b", zone="y"} 2
`,
  'native histograms get labels, and are no info series': `
load 1m
  wait{job="j", instance="a"} {{schema:0 count:3 sum:4 buckets:[1 2]}} 5 {{schema:0 count:5 sum:6 buckets:[3 2]}}
  target_info{job="j", instance="a", zone="x"} 1 stale 1

eval range from 0 to 2m step 1m info(wait)
  wait{job="j", instance="a", zone="x"} {{schema:0 count:3 sum:4 buckets:[1 2]}} _ {{schema:0 count:5 sum:6 buckets:[3 2]}}
  wait{job="j", instance="a"} _ 5 _

eval instant at 0 info(target_info, {__name__="wait"})
  expect fail msg: this should be an info metric, with float samples: {__name__="wait", instance="a", job="j"}

eval instant at 1m info(wait, {__name__="wait"})
  wait{job="j", instance="a"} 5
`,
  'info series are looked at when the selectors of the input look, if that is one time': `
load 1m
  up{job="j", instance="a"} 0+1x10
  target_info{job="j", instance="a", zone="old"} 1 1 1 1 stale
  target_info{job="j", instance="a", zone="new"} _ _ _ _ 1 1 1 1 1 1 1

eval range from 5m to 7m step 1m info(up offset 3m)
  up{job="j", instance="a", zone="old"} 2 3 _
  up{job="j", instance="a", zone="new"} _ _ 4

eval range from 5m to 7m step 1m info(rate(up[2m] offset 3m) + up offset 3m)
  {job="j", instance="a", zone="old"} 2.016666666666667 3.016666666666667 _
  {job="j", instance="a", zone="new"} _ _ 4.016666666666667

eval range from 5m to 6m step 1m info(up offset 3m > up offset 4m)
  up{job="j", instance="a", zone="new"} 2 3

eval range from 3m to 5m step 1m info(up @ 120)
  up{job="j", instance="a", zone="old"} 2 2 2

eval range from 3m to 5m step 1m info(up @ 120 or up @ 180)
  up{job="j", instance="a", zone="old"} 2 _ _
  up{job="j", instance="a", zone="new"} _ 2 2

eval range from 3m to 5m step 1m info(up @ 180 offset 1m or up @ 120)
  up{job="j", instance="a", zone="old"} 2 2 2

# The second of two equal times is pinned by what is around it.
eval range from 7m to 8m step 1m info(max_over_time((up offset 1m or up @ 120)[1m:1m] @ 180))
  {job="j", instance="a", zone="old"} 2 2

# What is no vector counts for nothing, and a vector without a selector is of the time of evaluation.
eval range from 4m to 5m step 1m info(up offset 3m * scalar(up @ 600))
  {job="j", instance="a", zone="old"} 10 20

eval range from 4m to 5m step 1m info(up @ 120 and on () vector(1))
  up{job="j", instance="a", zone="new"} 2 2

eval instant at 8m last_over_time(info(up offset 2m)[4m:2m])
  up{job="j", instance="a", zone="new"} 6

eval range from 3m to 5m step 1m info(info(up @ 120, {zone="old"}) or up{zone="none"}, {rack=""} @ 600)
  up{job="j", instance="a", zone="old"} 2 2 2
`,
};

for (const [name, script] of Object.entries(scripts)) {
  test(name, async () => {
    const storage = new MemoryStorage();
    const engine = new PromqlEngine(storage, { clock: realEnv.clock, features });
    const outcome = await runScript(script, storage, engine);
    assert.deepEqual(outcome.failures, []);
    assert.ok(outcome.passed > 0);
  });
}

type TagValues = Readonly<Record<string, string>>;

/** Tells what is asked of it. */
class WatchedStorage implements QueryStorage {
  readonly #inner = new MemoryStorage();
  readonly reads: {
    readonly matchers: string;
    readonly range: SelectRange;
    readonly chunkBytes: number;
  }[] = [];
  /** Of those for info series. */
  warnings: readonly string[] = [];
  exhaustive = true;

  add(name: string, tagValues: TagValues, timesMillis: readonly number[] = [0]): void {
    const tags = Object.entries({ __name__: name, ...tagValues });
    const one = new BigUint64Array(Float64Array.of(1).buffer)[0]!;
    for (const millis of timesMillis) {
      this.#inner.add(
        tags.map(([tag, value]) => ({ name: tag, value })),
        millis,
        one,
      );
    }
  }

  async select(matchers: readonly Matcher[], range: SelectRange) {
    const texts = matchers.map(({ name, kind, value }) => `${name}${kind}${value}`);
    const result = await this.#inner.select(matchers, range);
    const chunkBytes = result.bundle.chunkData.length;
    this.reads.push({ matchers: texts.join(' '), range, chunkBytes });
    if (!texts.some((text) => text.startsWith('__name__') && text.includes('_info'))) return result;
    return { ...result, exhaustive: this.exhaustive, warnings: this.warnings };
  }

  labelNames(): never {
    return this.#inner.labelNames();
  }

  labelValues(): never {
    return this.#inner.labelValues();
  }

  series(): never {
    return this.#inner.series();
  }
}

const minute = 60_000;
const nanosOf = (millis: number): bigint => BigInt(millis) * 1_000_000n;

/** By labels: the values at the steps from minute 1 to 3. */
async function answer(storage: QueryStorage, query: string, over: Partial<QueryOptions> = {}) {
  const engine = new PromqlEngine(storage, { clock: realEnv.clock, features });
  const all = { ...options, ...over };
  const result = await engine.rangeQuery(query, minute, 3 * minute, minute, all, signal);
  return { result, labels: result.series().map(({ labels }) => labels.toString()) };
}

test('info series are read of the targets that the input has, of the time that it is of', async () => {
  const storage = new WatchedStorage();
  storage.add('up', { job: 'j', instance: 'a.b' });
  storage.add('up', { job: 'j', instance: 'c' });
  storage.add('up', { job: 'k', instance: 'd' }, [-10 * minute]);
  storage.add('target_info', { job: 'j', instance: 'c', zone: 'z' });
  const { labels } = await answer(storage, 'info(up offset 30s, {zone!="y"})');
  assert.deepEqual(labels, [
    '{__name__="up", instance="a.b", job="j"}',
    '{__name__="up", instance="c", job="j", zone="z"}',
  ]);
  const range = { startNanos: nanosOf(-270_000 + 1), endNanos: nanosOf(150_000 + 1) };
  const matchers = 'job=j instance=~a\\.b|c zone!=y __name__=target_info';
  assert.deepEqual(
    storage.reads.map((read) => [read.matchers, read.range]),
    [
      ['__name__=up', range],
      [matchers, range],
    ],
  );
});

test('a target without a job or an instance is asked for as such', async () => {
  const storage = new WatchedStorage();
  storage.add('up', { job: 'j' });
  storage.add('up', { job: 'j', instance: 'a' });
  storage.add('target_info', { job: 'j', zone: 'y' });
  storage.add('target_info', { job: 'j', instance: 'a', zone: 'z' });
  const { labels } = await answer(storage, 'info(up)');
  assert.deepEqual(labels, [
    '{__name__="up", instance="a", job="j", zone="z"}',
    '{__name__="up", job="j", zone="y"}',
  ]);
  assert.equal(storage.reads[1]!.matchers, 'job=j instance=~|a __name__=target_info');
});

test('nothing more is read when no series has a target', async () => {
  const storage = new WatchedStorage();
  storage.add('up', { zone: 'y' });
  storage.add('target_info', { job: 'j', instance: 'a' });
  for (const query of ['info(up)', 'info(target_info)', 'info(up > 1)', 'info(vector(1))']) {
    storage.reads.length = 0;
    await answer(storage, query);
    assert.ok(storage.reads.length < 2, query);
  }
});

test('more targets than a regexp can name are asked for all together', async () => {
  const storage = new WatchedStorage();
  const long = 'i'.repeat(1000);
  for (let i = 0; i < 600; i++) storage.add('up', { job: 'j', instance: `${long}${i}` });
  storage.add('target_info', { job: 'j', instance: `${long}7`, zone: 'z' });
  // Were it of a target, it would be a twin.
  storage.add('target_info', { job: 'j', instance: 'another', zone: 'y' });
  storage.add('target_info', { job: 'j', instance: 'another', zone: 'z' });
  const { labels } = await answer(storage, 'info(up)');
  assert.equal(storage.reads[1]!.matchers, 'job=j instance!= __name__=target_info');
  assert.equal(labels.length, 600);
  assert.equal(labels.filter((text) => text.includes('zone="z"')).length, 1);
});

test('an answer says what storage says of info series', async () => {
  const storage = new WatchedStorage();
  storage.add('up', { job: 'j', instance: 'a' });
  storage.add('target_info', { job: 'j', instance: 'a', zone: 'z' });
  storage.warnings = ['one replica did not answer'];
  storage.exhaustive = false;
  const { result } = await answer(storage, 'info(up)');
  assert.deepEqual(result.warnings, storage.warnings);
  assert.equal(result.exhaustive, false);
  assert.equal(result.stats.selectedSeries, 2);
});

test('a long subquery is described in parts', async () => {
  const storage = new WatchedStorage();
  const second = 1000;
  const end = 300_000 * second;
  const flip = 280_000 * second;
  storage.add('up', { job: 'j', instance: 'a' }, [-1]);
  storage.add('target_info', { job: 'j', instance: 'a', zone: 'y' }, [-1]);
  storage.add('target_info', { job: 'j', instance: 'a', zone: 'z' }, [flip]);
  const engine = new PromqlEngine(storage, { clock: realEnv.clock, features });
  const all = { ...options, lookbackMillis: 2 * end };
  const query = 'count_over_time(info(up)[300000s:1s])';
  const result = await engine.instantQuery(query, end, all, signal);
  assert.deepEqual(
    result.series().map(({ labels, points }) => [labels.get('zone'), points[0]!.value]),
    [
      ['y', 279_999],
      ['z', 20_001],
    ],
  );
  assert.equal(storage.reads.length, 3);
});

test('chunks of info series are given back when targets are described, and labels are counted', async () => {
  const storage = new WatchedStorage();
  for (let i = 0; i < 50; i++) {
    storage.add('up', { job: 'j', instance: `${i}` });
    storage.add('target_info', { job: 'j', instance: `${i}`, zone: 'z'.repeat(1000) });
  }
  const given: number[] = [];
  let taken = 0;
  const memory: ReadBytes = {
    tryGrow: (bytes) => {
      taken += bytes;
      return true;
    },
    grow: async () => {},
    give: (bytes) => {
      given.push(bytes);
    },
  };
  await answer(storage, 'info(up)', { limits: { ...options.limits, memory } });
  const [ofInput, ofInfo] = storage.reads.map(({ chunkBytes }) => chunkBytes);
  assert.ok(given.includes(ofInfo!));
  assert.ok(given.indexOf(ofInfo!) < given.lastIndexOf(ofInput!));
  // Of the info series, and of the answer.
  assert.ok(taken > 2 * 4 * 50 * 1000, `${taken}`);
});
