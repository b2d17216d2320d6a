/** Parts that a source deletes or makes anew while it is read: what is taken, in which order, and what is told as lost. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rowOutcome } from '#cluster/node/service.ts';
import { nowSeconds, TestCoordinator } from '#coordinator/coordinator_testing.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import { legacyTagRules } from '#lib/tags.ts';
import {
  clock,
  options,
  partOf,
  seriesOf,
  signal,
  sourceOf,
  stored,
  targetOf,
  TestJournal,
} from './import_testing.ts';
import { nothingDone } from './journal.ts';
import { runImport } from './run.ts';
import {
  failing,
  type ImportPart,
  type ImportSeries,
  type ImportSource,
} from '../sources/source.ts';
import { surveyOf } from './survey.ts';
import { takeParts } from './taking.ts';
import { verifySource } from './verify.ts';
import { bodyRowsMax } from './write_bodies.ts';

/** A part of one row, and one whose files are deleted before it is read, or behind so many of its series. */
const now = BigInt(nowSeconds()) * 1_000_000_000n;
const one = (name: string, ...contents: readonly string[]): ImportPart => ({
  ...partOf(name, [seriesOf(name, [now], Float64Array.of(1))]),
  contents,
});
const gone = (part: ImportPart, whole = 0): ImportPart => ({
  ...part,
  async *series() {
    const begin = seriesOf(`begin of ${part.name}`, [now], Float64Array.of(1));
    yield* [begin].slice(0, whole);
    throw new TsdbError('NOT_FOUND', `cannot read ${part.name}: file is missing`);
  },
});
/** Listed one way after the other, and then as it was last. */
function listedAs(...all: readonly (readonly ImportPart[])[]): ImportSource {
  const left = [...all];
  return {
    parts: async () => (left.length > 1 ? left.shift()! : left[0]!),
    notes: [],
    unfinished: 0,
  };
}

test('parts that a source deletes meanwhile are taken under their new names', async () => {
  await using test = await TestCoordinator.openReady();
  const moving = () =>
    listedAs(
      [one('a'), gone(one('log1')), gone(one('log2'), 1), one('b')],
      [one('a'), gone(one('snapshot1', '0/7')), one('b')],
      [one('a'), one('b'), one('snapshot2', '0/7')],
    );
  const steps = { target: targetOf(test), clock, signal, onProgress: () => {} };
  const journal = new TestJournal();
  const outcome = await runImport({ ...steps, source: moving(), journal }, options);
  assert.deepEqual(outcome.replaced, ['log1', 'log2', 'snapshot1']);
  assert.deepEqual(outcome.lost, []);
  assert.deepEqual([...journal.progress.taken.keys()], ['a', 'b', 'snapshot2']);
  assert.deepEqual(
    [...stored(test).keys()].toSorted(),
    ['a ä', 'b ä', 'snapshot2 ä'],
    'series of a part that is gone are in bodies that were not full',
  );
  const survey = await surveyOf(moving(), legacyTagRules, signal, () => {});
  assert.deepEqual([survey.parts, survey.rows], [3, 3]);
  const found = await verifySource(moving(), false, steps.target, signal, () => {});
  assert.deepEqual([found.rows, found.missing], [4, 1]);
  const torn = listedAs([one('a'), gone(one('torn'))]);
  const take = async (part: ImportPart): Promise<boolean> => {
    for await (const _ of part.series(0));
    return true;
  };
  await assert.rejects(
    takeParts(torn, { isDone: () => false, take, signal }),
    { code: 'BAD_REQUEST', message: 'cannot read torn: file is missing' },
    'what is listed and lacks a file is damaged',
  );
});

test('a part whose files are being deleted one after the other is no damaged one', async () => {
  const begin = performance.now();
  const source: ImportSource = {
    parts: async () =>
      performance.now() - begin < 300 ? [one('a'), gone(one('old', '0/6'))] : [one('a')],
    notes: [],
    unfinished: 0,
  };
  const take = async (part: ImportPart): Promise<boolean> => {
    for await (const _ of part.series(0));
    return true;
  };
  const { lost } = await takeParts(source, { isDone: () => false, take, signal });
  assert.deepEqual(lost, ['old'], 'as what is deleted at once');
});

test('parts that a source deletes since their retention is over are told, and no later call forgets them', async () => {
  await using test = await TestCoordinator.openReady();
  const journal = new TestJournal();
  const steps = { target: targetOf(test), journal, clock, signal, onProgress: () => {} };
  const expiring = () =>
    listedAs(
      [gone(one('old', '0/6')), gone(one('merged', 'x', 'y')), one('new', '0/8')],
      [one('new', '0/8'), one('both', 'x', 'y', 'z')],
    );
  const outcome = await runImport({ ...steps, source: expiring() }, options);
  assert.deepEqual([outcome.replaced, outcome.lost], [['merged'], ['old']]);
  const again = await runImport({ ...steps, source: sourceOf(one('new', '0/8')) }, options);
  assert.deepEqual([again.rows, again.replaced, again.lost], [2, [], ['old']]);
  // As a restored copy has it.
  const restored = sourceOf(one('old', '0/6'), one('new', '0/8'));
  const whole = await runImport({ ...steps, source: restored }, options);
  assert.deepEqual([whole.rows, whole.lost, journal.progress.waiting.size], [3, [], 0]);
  // A call that was ended knows what it had not come to.
  const ended = { ...steps, journal: new TestJournal() };
  const away = { write: () => Promise.reject(new TsdbError('UNAVAILABLE', 'away')) };
  const two = sourceOf(one('first', '0/1'), one('second', '0/2'));
  await assert.rejects(runImport({ ...ended, source: two, target: away }, options), /away/);
  const rest = await runImport({ ...ended, source: sourceOf(one('second', '0/2')) }, options);
  assert.deepEqual([rest.rows, rest.lost], [1, ['first']]);
  const survey = await surveyOf(expiring(), legacyTagRules, signal, () => {});
  assert.deepEqual([survey.rows, survey.lost], [2, ['old']]);
  const found = await verifySource(expiring(), false, steps.target, signal, () => {});
  assert.deepEqual(found.lost, ['old']);
});

test('a part that cannot be read takes nothing back of what was taken behind it', async () => {
  await using test = await TestCoordinator.openReady();
  const journal = new TestJournal();
  const steps = { target: targetOf(test), journal, clock, signal, onProgress: () => {} };
  const whole = [one('a'), one('b')];
  await runImport({ ...steps, source: sourceOf(...whole) }, options);
  const torn: ImportPart = { ...one('0 torn'), series: () => failing(badRequest('torn')) };
  await assert.rejects(runImport({ ...steps, source: sourceOf(torn, ...whole) }, options), /torn/);
  assert.deepEqual([...journal.progress.taken.keys()], ['a', 'b']);
  const mended = sourceOf(one('0 torn'), ...whole);
  await runImport({ ...steps, source: mended }, options);
  assert.deepEqual([...journal.progress.taken.keys()], ['0 torn', 'a', 'b']);
});

test('a part that lacks a file is taken up to there where damage is passed over, by each kind of call', async () => {
  await using test = await TestCoordinator.openReady();
  const target = targetOf(test);
  const lacking = () => sourceOf(gone(one('a'), 1), one('b'));
  const steps = { target, journal: new TestJournal(), clock, signal, onProgress: () => {} };
  const skipping = { ...options, skipsDamaged: true };
  const outcome = await runImport({ ...steps, source: lacking() }, skipping);
  assert.deepEqual([...stored(test).keys()].toSorted(), ['b ä', 'begin of a ä']);
  const left = ['a is left from its damage on: cannot read a: file is missing'];
  assert.deepEqual([outcome.rows, outcome.damaged], [2, left]);
  const lines: string[] = [];
  const onDamage = (line: string) => void lines.push(line);
  const survey = await surveyOf(lacking(), legacyTagRules, signal, () => {}, onDamage);
  const found = await verifySource(lacking(), false, target, signal, () => {}, onDamage);
  assert.deepEqual([survey.rows, found.rows, found.missing], [2, 3, 0]);
  assert.deepEqual(lines, [...left, ...left]);
});

test('what is under way of a part that ends early is waited for before another is read', async () => {
  const events: string[] = [];
  const target = {
    async write() {
      events.push('sent');
      await new Promise((resolve) => setTimeout(resolve, 20));
      events.push('written');
      return { refused: 0, reason: '' };
    },
  };
  const begun: ImportPart = {
    ...one('log'),
    async *series() {
      yield seriesOf(
        'long',
        [...Array(bodyRowsMax + 1).keys()].map(BigInt),
        new Float64Array(bodyRowsMax + 1),
      );
      throw new TsdbError('NOT_FOUND', 'gone');
    },
  };
  const next: ImportPart = {
    ...one('next'),
    async *series() {
      events.push('next is read');
      yield seriesOf('m', [now], Float64Array.of(1));
    },
  };
  const source = listedAs([begun, next], [next]);
  const journal = new TestJournal();
  await runImport({ source, target, journal, clock, signal, onProgress: () => {} }, options);
  const underWay = ['sent', 'sent', 'written', 'written'];
  assert.deepEqual(events, [...underWay, 'next is read', 'sent', 'written']);
});

test('rows that were refused count as long as the source has their part', async () => {
  await using test = await TestCoordinator.openReady();
  const journal = new TestJournal();
  const steps = { target: targetOf(test), journal, clock, signal, onProgress: () => {} };
  test.node.outcomeOf = () => rowOutcome.tooFarPast;
  const log = await runImport({ ...steps, source: sourceOf(one('log')) }, options);
  assert.deepEqual([log.rows, log.refused], [0, 1]);
  test.node.outcomeOf = () => rowOutcome.written;
  const moved = await runImport({ ...steps, source: sourceOf(one('fileset', '0/7')) }, options);
  assert.deepEqual([moved.rows, moved.refused, moved.lost], [1, 0, []]);
  test.node.outcomeOf = () => rowOutcome.tooFarPast;
  const both = sourceOf(one('fileset', '0/7'), one('refused', '0/8'));
  assert.equal((await runImport({ ...steps, source: both }, options)).refused, 1);
  const left = await runImport({ ...steps, source: sourceOf(one('fileset', '0/7')) }, options);
  assert.deepEqual([left.refused, left.lost], [0, ['refused']]);
});

test('of rows of one time those of the last part win, also when one before it comes late', async () => {
  await using test = await TestCoordinator.openReady();
  const valueOf = (value: number, more: readonly ImportSeries[] = []) => [
    seriesOf('m', [now], Float64Array.of(value)),
    ...more,
  ];
  const bad = seriesOf('old', [now - 5_000_000_000n], Float64Array.of(0));
  const parts = [
    { ...partOf('log0', valueOf(1, [bad])), shard: '1' },
    { ...partOf('of another shard', [seriesOf('other', [now], Float64Array.of(1))]), shard: '2' },
    partOf('log1', valueOf(2)),
  ];
  let reads = 0;
  const counted = parts.map(
    (part): ImportPart => ({
      ...part,
      series: (skip) => {
        reads += 1;
        return part.series(skip);
      },
    }),
  );
  const source = sourceOf(...counted);
  const journal = new TestJournal();
  const steps = { source, target: targetOf(test), journal, clock, signal, onProgress: () => {} };
  test.node.outcomeOf = (nanos) => (nanos < now ? rowOutcome.tooFarPast : rowOutcome.written);
  assert.equal((await runImport(steps, options)).refused, 1);
  const bits = (value: number) => new BigUint64Array(Float64Array.of(value).buffer)[0];
  assert.equal(stored(test).get('m ä')!.get(now), bits(2));
  test.node.outcomeOf = () => rowOutcome.written;
  reads = 0;
  assert.equal((await runImport(steps, options)).refused, 0);
  assert.equal(stored(test).get('m ä')!.get(now), bits(2));
  assert.equal(reads, 2, 'that of another shard is not read again');
});

test('rows that come again in a part are sent when those of before have been written', async () => {
  const events: string[] = [];
  let bodies = 0;
  const target = {
    write: async () => {
      const body = `body ${++bodies}`;
      events.push(`${body} is sent`);
      // The first one has to be sent again, the others have not.
      await new Promise((resolve) => setTimeout(resolve, body === 'body 1' ? 50 : 1));
      events.push(`${body} is written`);
      return { refused: 0, reason: '' };
    },
  };
  const series = seriesOf('m', [now], Float64Array.of(1));
  const part = partOf('log', [series, { ...series, comesAgain: true }]);
  const journal = new TestJournal();
  const source = sourceOf(part);
  await runImport({ source, target, journal, clock, signal, onProgress: () => {} }, options);
  assert.deepEqual(events, [
    'body 1 is sent',
    'body 1 is written',
    'body 2 is sent',
    'body 2 is written',
  ]);
});

test('a part that may be other when it is read again is begun anew', async () => {
  await using test = await TestCoordinator.openReady();
  const all = ['a', 'b'].map((name) => seriesOf(name, [now], Float64Array.of(1)));
  const journal = new TestJournal();
  journal.progress = { ...nothingDone, part: 'p', series: 1, rows: 1 };
  const source = sourceOf({ ...partOf('p', all), changes: true });
  const steps = { source, target: targetOf(test), journal, clock, signal, onProgress: () => {} };
  assert.equal((await runImport(steps, options)).rows, 2);
});
