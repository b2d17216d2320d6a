/** History into a cluster: what is written, in which order it is told, and what a second call does. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { finishedFormatsKey } from '#cluster/kv/keys.ts';
import { finishedLevelValue } from '#cluster/metadata/finished_formats.ts';
import { rowOutcome } from '#cluster/node/service.ts';
import { nowSeconds, testCluster, TestCoordinator } from '#coordinator/coordinator_testing.ts';
import { histogramOfValue } from '#engine/typed/histogram.ts';
import { TsdbError } from '#lib/errors.ts';
import {
  formatLevelNewest,
  rowVersionsFormatLevel,
  typedRowsFormatLevel,
} from '#lib/format_level.ts';
import { legacyTagRules } from '#lib/tags.ts';
import { nothingDone, type Progress } from './journal.ts';
import { RateLimit } from './rate_limit.ts';
import { labelled, labelsOf, leftOutOf, without } from '../sources/labelled.ts';
import { remoteSource } from '../sources/remote/source.ts';
import { runImport } from './run.ts';
import { carbonPathOf, type ImportPart, type ImportSeries } from '../sources/source.ts';
import { surveyOf } from './survey.ts';
import { Target } from './target.ts';
import { verifySource } from './verify.ts';
import { WriteBodies, bodyRowsMax } from './write_bodies.ts';

import {
  clock,
  options,
  partOf,
  seriesOf,
  signal,
  sourceOf,
  stale,
  stored,
  targetOf,
  TestJournal,
} from './import_testing.ts';

test('rows come with their bits and their nanoseconds, histograms beside them', async () => {
  await using test = await TestCoordinator.openReady();
  const now = BigInt(nowSeconds()) * 1_000_000_000n;
  const values = Float64Array.of(1.5, 0, -0, 0.1, 4);
  new BigUint64Array(values.buffer)[1] = 0x7ff0000000000002n;
  const times = [now - 5n, now, now + 1_000_000n, now + 1_234_567n, now + 3_000_000n];
  const histogram = {
    isFloat: false,
    schema: 0,
    hint: 0,
    zeroThreshold: 0.001,
    count: 3,
    zeroCount: 1,
    sumBits: new BigUint64Array(Float64Array.of(5).buffer)[0]!,
    customBounds: new Float64Array(0),
    positive: { indexes: Int32Array.of(1), counts: Float64Array.of(2) },
    negative: { indexes: new Int32Array(0), counts: new Float64Array(0) },
  } as const;
  const histograms = [{ timestampNanos: now + 9_000_000n, histogram }];
  const journal = new TestJournal();
  const outcome = await runImport(
    {
      source: sourceOf(partOf('p', [seriesOf('m', times, values, { histograms })])),
      target: targetOf(test),
      journal,
      clock,
      signal,
      onProgress: () => {},
    },
    options,
  );
  const nothing = { refused: 0, refusals: [], untagged: 0, replaced: [], lost: [], damaged: [] };
  assert.deepEqual(outcome, { parts: 1, rows: 6, ...nothing });
  const rows = stored(test).get('m ä')!;
  const bits = new BigUint64Array(values.buffer);
  for (const [i, nanos] of times.entries()) assert.equal(rows.get(nanos), bits[i], String(i));
  const typed = rows.get(now + 9_000_000n) as Uint8Array;
  assert.deepEqual(histogramOfValue(typed).positive, histogram.positive);
  const former = new TestJournal();
  await assert.rejects(
    runImport(
      {
        source: sourceOf(partOf('p', [seriesOf('other', times, values, { histograms })])),
        target: targetOf(test),
        journal: former,
        clock,
        signal,
        onProgress: () => {},
      },
      { ...options, skipsDamaged: true, takesHistograms: false },
    ),
    /native histograms, which the cluster drops until its upgrade is finished/,
  );
  assert.equal(stored(test).has('other ä'), false);
  const waiting = new Map([['p', ['p']]]);
  assert.deepEqual(
    former.progress,
    { ...nothingDone, part: 'p', waiting },
    'it is begun, and nothing more',
  );
  assert.deepEqual(journal.progress, {
    ...nothingDone,
    taken: new Map([['p', { rows: 6, refused: 0, isDamaged: false, untagged: 0 }]]),
  });
});

test('paths of Carbon are taken over as paths, to the nanosecond, beside other series', async () => {
  await using test = await TestCoordinator.openReady();
  const now = BigInt(nowSeconds()) * 1_000_000_000n;
  const path = {
    ...seriesOf('', [now - 5n, now, now + 500_000_000n], Float64Array.of(0.1, -0, 1e300)),
    tags: ['web', 'cpu', 'user'].map((value, i) => ({ name: `__g${i}__`, value })),
  };
  const all = [seriesOf('m', [now], Float64Array.of(1)), path];
  const source = sourceOf(partOf('p', all));
  const journal = new TestJournal();
  const steps = { source, target: targetOf(test), journal, clock, signal, onProgress: () => {} };
  const outcome = await runImport(steps, options);
  assert.deepEqual([outcome.rows, outcome.refused], [4, 0]);
  const bits = new BigUint64Array(path.values.buffer);
  const wanted = [...path.timestampNanos].map((nanos, i) => [nanos, bits[i]] as const);
  assert.deepEqual(stored(test).get('web cpu user'), new Map(wanted));
  const gap = [
    { name: '__g0__', value: 'a' },
    { name: '__g2__', value: 'b' },
  ];
  assert.equal(carbonPathOf(gap), null);
  assert.equal(carbonPathOf([...path.tags, { name: 'x', value: 'y' }]), null);
  assert.equal(carbonPathOf([...path.tags, { name: 'x', value: '' }]), 'web.cpu.user');
});

test('what would be another path as a line of Carbon is refused, and counted', async () => {
  await using test = await TestCoordinator.openReady();
  const now = BigInt(nowSeconds()) * 1_000_000_000n;
  const ofNodes = (...nodes: readonly string[]): ImportSeries => ({
    ...seriesOf('', [now], Float64Array.of(1)),
    tags: nodes.map((value, i) => ({ name: `__g${i}__`, value })),
  });
  const bad = ['a.b', 'a b', 'a;b=c', 'a\tb', 'a\nb', 'a\u007f', ''].map((node) =>
    ofNodes('web', node),
  );
  for (const { tags } of bad) assert.equal(carbonPathOf(tags), null, JSON.stringify(tags));
  const twice = ['0', '00'].map((index) => ({ name: `__g${index}__`, value: 'a' }));
  assert.equal(carbonPathOf(twice), null);
  assert.equal(carbonPathOf([{ name: '__g0__', value: 'ä-:#' }]), 'ä-:#');
  const source = sourceOf(partOf('p', [...bad, ofNodes('web', 'cpu')]));
  const survey = await surveyOf(source, legacyTagRules, signal, () => {});
  assert.deepEqual(
    survey.refusals.map(({ series }) => series),
    [bad.length],
  );
  const journal = new TestJournal();
  const steps = { source, target: targetOf(test), journal, clock, signal, onProgress: () => {} };
  const outcome = await runImport(steps, options);
  assert.deepEqual([outcome.rows, outcome.refused], [1, bad.length]);
  assert.deepEqual([...stored(test).keys()], ['web cpu']);
});

test('an import that stopped goes on with the series that was not whole', async () => {
  await using test = await TestCoordinator.openReady();
  const now = BigInt(nowSeconds()) * 1_000_000_000n;
  const rowsEach = bodyRowsMax / 2;
  const times = Array.from({ length: rowsEach }, (_, i) => now - BigInt(i) * 1_000_000n).reverse();
  const all = Array.from({ length: 10 }, (_, i) =>
    seriesOf(`m${i}`, times, new Float64Array(rowsEach).fill(i)),
  );
  const source = sourceOf(
    partOf('a', all),
    partOf('b', [seriesOf('last', [now], Float64Array.of(7))]),
  );
  const journal = new TestJournal();
  let writes = 0;
  const target = targetOf(test);
  const failing = {
    write: async (body: Parameters<Target['write']>[0]) => {
      if (++writes > 3) throw new TsdbError('UNAVAILABLE', 'away');
      return target.write(body);
    },
  };
  const steps = { source, journal, clock, signal, onProgress: () => {} };
  await assert.rejects(runImport({ ...steps, target: failing }, options), /away/);
  // The journal is written once a second: it may know of less than was written, and never of more.
  journal.progress = { ...nothingDone, part: 'a', series: 4, rows: 4 * rowsEach };
  let skipped = -1;
  const [first, second] = await source.parts();
  const watched: ImportPart = {
    ...first!,
    series: (skip) => {
      skipped = skip;
      return first!.series(skip);
    },
  };
  const rest = await runImport({ ...steps, source: sourceOf(watched, second!), target }, options);
  assert.equal(skipped, 4);
  assert.equal(rest.rows, 10 * rowsEach + 1);
  const sizes = [...stored(test).values()].map((rows) => rows.size);
  assert.deepEqual(
    sizes.toSorted((a, b) => a - b),
    [1, ...Array<number>(10).fill(rowsEach)],
  );
  const none = await runImport({ ...steps, target: { write: async () => assert.fail() } }, options);
  assert.equal(none.rows, rest.rows);
});

test('the journal of many small parts is written now and then, and knows all of them in the end', async () => {
  await using test = await TestCoordinator.openReady();
  const now = BigInt(nowSeconds()) * 1_000_000_000n;
  const parts = Array.from({ length: 200 }, (_, i) =>
    partOf(`p${i}`, [seriesOf('m', [now + BigInt(i) * 1_000_000n], Float64Array.of(i))]),
  );
  const journal = new TestJournal();
  let writes = 0;
  const counted = {
    read: () => journal.read(),
    write: (progress: Progress) => {
      writes += 1;
      return journal.write(progress);
    },
  };
  const still = { ...clock, monotonicMillis: () => 0 };
  const target = targetOf(test);
  const steps = { target, journal: counted, clock: still, signal, onProgress: () => {} };
  await runImport({ ...steps, source: sourceOf(...parts) }, options);
  // First what is listed, and last what was taken.
  assert.deepEqual([writes, journal.progress.taken.size], [2, 200]);
  // What ended it comes after what it had done.
  const failing = { write: () => Promise.reject(new TsdbError('UNAVAILABLE', 'away')) };
  const more = sourceOf(...parts, partOf('q', [seriesOf('m', [now], Float64Array.of(1))]));
  await assert.rejects(runImport({ ...steps, source: more, target: failing }, options), /away/);
  assert.deepEqual([writes, journal.progress.taken.size], [4, 200]);
});

test('rows that are refused are counted and named, and the others are written', async () => {
  await using test = await TestCoordinator.openReady();
  const now = BigInt(nowSeconds()) * 1_000_000_000n;
  test.node.outcomeOf = (nanos) => (nanos < now ? rowOutcome.tooFarPast : rowOutcome.written);
  const old = seriesOf(
    'old; "x',
    [now - 2_000_000_000n, now - 1_000_000_000n, now],
    Float64Array.of(1, 2, 3),
  );
  const other = partOf('other', [seriesOf('other', [now], Float64Array.of(4))]);
  let otherReads = 0;
  const steps = {
    source: sourceOf(
      { ...partOf('p', [old]), shard: '1' },
      {
        ...other,
        shard: '2',
        series: (skip) => {
          otherReads += 1;
          return other.series(skip);
        },
      },
    ),
    target: targetOf(test),
    journal: new TestJournal(),
    clock,
    signal,
    onProgress: () => {},
  };
  const outcome = await runImport(steps, options);
  assert.deepEqual([outcome.rows, outcome.refused], [2, 2]);
  assert.equal(outcome.refusals.length, 1, 'one of a kind');
  assert.match(
    outcome.refusals[0]!,
    /^refused: \{__name__="old; \\"x", host="ä"\} at \d+: [^;]*past[^;]*$/,
  );
  // What kept them out is mended: the next call brings them, and nothing else once more.
  test.node.outcomeOf = () => rowOutcome.written;
  const again = await runImport(steps, options);
  assert.deepEqual([again.rows, again.refused, again.parts, otherReads], [4, 0, 2, 1]);
  assert.equal(stored(test).get('old; "x ä')!.size, 3);
});

test('what is damaged ends an import, or is passed over and named, and is read again by the next call', async () => {
  await using test = await TestCoordinator.openReady();
  const now = BigInt(nowSeconds()) * 1_000_000_000n;
  const one = (name: string) => partOf(name, [seriesOf(name, [now], Float64Array.of(1))]);
  let isDamaged = true;
  const torn: ImportPart = {
    ...one('torn'),
    async *series() {
      yield seriesOf('before', [now], Float64Array.of(1));
      if (isDamaged) throw new TsdbError('BAD_REQUEST', 'cannot read torn: checksum');
      yield seriesOf('after', [now], Float64Array.of(1));
    },
  };
  const journal = new TestJournal();
  const source = sourceOf(torn, one('whole'));
  const steps = { source, target: targetOf(test), journal, clock, signal, onProgress: () => {} };
  await assert.rejects(runImport(steps, options), /cannot read torn: checksum/);
  const outcome = await runImport(steps, { ...options, skipsDamaged: true });
  assert.deepEqual(
    [outcome.rows, outcome.damaged],
    [2, ['torn is left from its damage on: cannot read torn: checksum']],
  );
  assert.deepEqual([...stored(test).keys()].toSorted(), ['before ä', 'whole ä']);
  isDamaged = false;
  const mended = await runImport(steps, options);
  assert.deepEqual([mended.rows, mended.damaged], [3, []]);
});

test('labels are added to series that have none of the name, or taken away', async () => {
  const labels = labelsOf(['cluster=eu', 'host=other', 'gone=', 'text=a=b']);
  const tags = [
    { name: '__name__', value: 'm' },
    { name: 'host', value: 'own' },
    { name: 'gone', value: 'x' },
    { name: 'cluster', value: '' },
  ];
  const series = { ...seriesOf('m', [1n], Float64Array.of(1)), tags };
  const ofShard = { ...partOf('p', [series]), shard: '1' };
  const [part] = await labelled(sourceOf(ofShard), labels).parts();
  assert.equal(part!.shard, undefined, 'series of two shards may become one');
  const found: string[] = [];
  for await (const each of part!.series(0)) {
    found.push(each.tags.map(({ name, value }) => `${name}=${value}`).join(' '));
  }
  assert.deepEqual(found, ['__name__=m host=own cluster=eu text=a=b']);
  assert.throws(() => labelsOf(['=x']), /--label is not NAME=VALUE: =x/);
  assert.throws(() => labelsOf(['a=1', 'a=2']), /--label is given twice: a/);
});

test('series are left out by a label, and a part goes on behind those that were written', async () => {
  const tagged = (name: string, value: string): ImportSeries => ({
    ...seriesOf('m', [1n], Float64Array.of(1)),
    tags: [
      { name: '__name__', value: 'm' },
      { name, value },
    ],
  });
  const all = [tagged('a', '1'), tagged('__rollup__', 'true'), tagged('b', '1'), tagged('a', '2')];
  const namesFrom = async (skip: number, ...leftOut: string[]): Promise<readonly string[]> => {
    const [part] = await without(sourceOf(partOf('p', all)), leftOutOf(leftOut)).parts();
    const found: string[] = [];
    for await (const { tags } of part!.series(skip))
      found.push(`${tags[1]!.name}=${tags[1]!.value}`);
    return found;
  };
  assert.deepEqual(await namesFrom(0, '__rollup__'), ['a=1', 'b=1', 'a=2']);
  assert.deepEqual(await namesFrom(1, '__rollup__'), ['b=1', 'a=2']);
  assert.deepEqual(await namesFrom(0, '__rollup__=false', 'a=2'), [
    'a=1',
    '__rollup__=true',
    'b=1',
  ]);
  for (const bad of ['=x', '', 'job=']) {
    assert.throws(() => leftOutOf([bad]), /--leave-out is not NAME or NAME=VALUE: /);
  }
});

test('verify finds rows that are missing or have another value', async () => {
  await using test = await TestCoordinator.openReady();
  const now = BigInt(nowSeconds()) * 1_000_000_000n;
  // The last one lies between two milliseconds.
  const times = [now, now + 1_000_000n, now + 2_345_678n];
  const all = [
    seriesOf('same', times, Float64Array.of(1, stale, Number.NaN)),
    seriesOf('other', times, Float64Array.of(1, 2, Number.POSITIVE_INFINITY)),
  ];
  const parts = [partOf('p', all)];
  const target = targetOf(test);
  const steps = { source: sourceOf(...parts), target, clock, signal, onProgress: () => {} };
  await runImport({ ...steps, journal: new TestJournal() }, options);
  const whole = await verifySource(sourceOf(...parts), false, target, signal, () => {});
  assert.deepEqual([whole.series, whole.rows, whole.missing, whole.different], [2, 6, 0, 0]);
  const rows = stored(test).get('other ä')!;
  rows.delete(now);
  rows.set(now + 1_000_000n, 0n);
  const found = await verifySource(sourceOf(...parts), false, target, signal, () => {});
  assert.deepEqual([found.missing, found.different], [1, 1]);
  assert.match(
    found.differences[0]!,
    /^\{__name__="other",host="ä"\}: of 3 rows 1 are missing and 1 have another value/,
  );
  // As M3 has stored what was written here as 4.222798000000001.
  const near = sourceOf(partOf('q', [seriesOf('near', [now], Float64Array.of(4.222798))]));
  await runImport({ ...steps, source: near, journal: new TestJournal() }, options);
  const bits = new BigUint64Array(Float64Array.of(4.222798000000001).buffer)[0]!;
  stored(test).get('near ä')!.set(now, bits);
  const ofM3 = await verifySource(near, true, target, signal, () => {});
  assert.deepEqual([ofM3.missing, ofM3.different, ofM3.rounded], [0, 0, 1]);
  const exact = await verifySource(near, false, target, signal, () => {});
  assert.deepEqual([exact.missing, exact.different, exact.rounded], [0, 1, 0]);
  const ends = sourceOf(partOf('r', [seriesOf('near', [now], Float64Array.of(Infinity))]));
  stored(test).get('near ä')!.set(now, 0x7ff0000000000002n);
  const ended = await verifySource(ends, true, target, signal, () => {});
  assert.deepEqual([ended.different, ended.rounded], [1, 0], 'a mark of an end is no infinity');
});

test('verify does not read the tree below a path', async () => {
  const asked: string[] = [];
  const target = {
    async read(_: string, form: URLSearchParams) {
      asked.push(...form.getAll('match[]'));
      return '';
    },
  };
  const path = [
    { name: '__g0__', value: 'a' },
    { name: '__g1__', value: 'b' },
  ];
  const series = { ...seriesOf('', [1n], Float64Array.of(1)), tags: path };
  await verifySource(sourceOf(partOf('p', [series])), false, target, signal, () => {});
  assert.deepEqual(asked, ['{__g0__="a",__g1__="b",__g2__=""}']);
});

test('a source that answers remote read is taken over slice by slice', async () => {
  await using from = await TestCoordinator.openReady();
  await using to = await TestCoordinator.openReady();
  const now = nowSeconds();
  const rows = Array.from({ length: 60 }, (_, i) => ({
    tags: { __name__: i % 2 === 0 ? 'even' : 'odd', i: String(i % 4) },
    timestamp: now - 60 + i,
    value: i,
  }));
  assert.equal((await from.post('/api/v1/json/write', rows)).status, 200);
  const range = {
    url: from.url('/api/v1/prom/remote/read'),
    startMillis: (now - 60) * 1000,
    endMillis: now * 1000,
    sliceMillis: 7000,
    names: '.+',
    headers: {},
  };
  const source = remoteSource(range, clock, signal);
  const journal = new TestJournal();
  const steps = { source, target: targetOf(to), clock, signal, onProgress: () => {} };
  const outcome = await runImport({ ...steps, journal }, options);
  assert.equal(outcome.rows, 60);
  assert.equal((await source.parts()).length, 9);
  assert.deepEqual(stored(to), stored(from));
  const some = remoteSource({ ...range, names: 'odd' }, clock, signal);
  const survey = await surveyOf(some, await targetOf(to).tagRules(), signal, () => {});
  assert.equal(survey.rows, 30);
  const refused = remoteSource({ ...range, url: from.url('/none') }, clock, signal);
  const [part] = await refused.parts();
  await assert.rejects(async () => {
    for await (const _ of part!.series(0)) assert.fail();
  }, /it answers 404/);
});

test('a call that goes on counts rows once that were written before it was stopped', async () => {
  const times = (count: number) => Array.from({ length: count }, (_, i) => BigInt(i) * 1_000_000n);
  const series = (name: string, count: number) =>
    seriesOf(name, times(count), new Float64Array(count));
  const short = Array.from({ length: 5 }, (_, i) => series(`s${i}`, bodyRowsMax / 4));
  const all = [...short, series('long', 3 * bodyRowsMax + 5), series('last', 7)];
  const source = sourceOf(partOf('a', all));
  const rows = all.reduce((sum, { values }) => sum + values.length, 0);
  let bodies = 0;
  const whole = { write: async () => (bodies++, { refused: 0, reason: '' }) };
  const steps = { source, clock, signal, onProgress: () => {} };
  await runImport({ ...steps, target: whole, journal: new TestJournal() }, options);
  const count = bodies;
  assert.ok(count >= 6);
  for (let stopped = 1; stopped < count; stopped += 1) {
    const journal = new TestJournal();
    let left = stopped;
    const target = {
      async write() {
        if (left-- === 0) throw new TsdbError('UNAVAILABLE', 'away');
        return { refused: 0, reason: '' };
      },
    };
    const one = { ...options, parallel: 1 };
    await assert.rejects(runImport({ ...steps, target, journal }, one), /away/);
    const rest = await runImport({ ...steps, target: whole, journal }, one);
    assert.equal(rest.rows, rows, `stopped at body ${stopped}`);
  }
});

test('rows come no faster than a limit', async () => {
  let millis = 0;
  const slow = {
    monotonicMillis: () => millis,
    sleep: async (more: number) => void (millis += more),
  };
  const limit = new RateLimit(1000, slow);
  for (let i = 0; i < 5; i++) await limit.take(500, signal);
  assert.equal(millis, 2000);
});

test('a long series is cut into bodies, of which only the last ends it', () => {
  const bodies = new WriteBodies(3);
  const rows = 2 * bodyRowsMax + 10;
  const times = Array.from({ length: rows }, (_, i) => BigInt(i) * 1_000_000n);
  const given = [
    ...bodies.add(seriesOf('long', times, new Float64Array(rows))),
    ...bodies.add(seriesOf('short', [5n], Float64Array.of(1))),
    ...bodies.end(),
  ];
  assert.deepEqual(
    given.map((body) => [body.rows, body.seriesDone]),
    [
      [bodyRowsMax, 3],
      [bodyRowsMax, 3],
      [1, 3],
      [10, 5],
    ],
  );
});

test('a cluster keeps native histograms when its upgrade is finished', async () => {
  await using test = await TestCoordinator.openReady();
  for (const [level, isTaken] of [
    [rowVersionsFormatLevel, false],
    [typedRowsFormatLevel, true],
    [formatLevelNewest, true],
  ] as const) {
    const key = finishedFormatsKey(testCluster);
    await test.kv.transact([], [{ kind: 'put', key, value: finishedLevelValue(level) }], signal);
    assert.equal(await targetOf(test).takesHistograms(), isTaken);
  }
});
