/** What a dry run says of a source and of the namespaces that its rows go into. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { legacyTagRules } from '#lib/tags.ts';
import type { ImportSeries } from '../sources/source.ts';
import { partOf, seriesOf, signal, sourceOf } from './import_testing.ts';
import { problemOf, surveyOf } from './survey.ts';

test('a survey counts, and says what the cluster would not take', async () => {
  const day = 86_400_000_000_000n;
  const parts = [partOf('p', [seriesOf('m', [day, 2n * day], Float64Array.of(1, 2))])];
  const survey = await surveyOf(sourceOf(...parts), legacyTagRules, signal, () => {});
  assert.deepEqual([survey.series, survey.rows], [1, 2]);
  assert.deepEqual(survey.refusals, []);
  const tagged = (name: string): ImportSeries => ({
    ...seriesOf('m', [day], Float64Array.of(1)),
    tags: [{ name, value: 'x' }],
  });
  const odd = sourceOf(partOf('p', [tagged('a.b'), tagged('c.d'), tagged('__x__')]));
  const { refusals } = await surveyOf(odd, legacyTagRules, signal, () => {});
  assert.deepEqual(refusals, [
    { series: 2, example: 'tag name does not match [a-zA-Z_][a-zA-Z0-9_]*: "a.b"' },
    { series: 1, example: 'tag names that begin with "__" are reserved: "__x__"' },
  ]);
  const noNumber: ImportSeries = {
    ...seriesOf('', [day, 2n * day], Float64Array.of(1, Number.NaN)),
    tags: [{ name: '__g0__', value: 'web' }],
  };
  const ofPath = await surveyOf(
    sourceOf(partOf('p', [noNumber])),
    legacyTagRules,
    signal,
    () => {},
  );
  assert.deepEqual(
    ofPath.refusals.map(({ example }) => example),
    ['rows of a path of Carbon that are no number, which its lines cannot say: web'],
  );
  const utf8 = { ...legacyTagRules, nameValidation: 'utf8' } as const;
  assert.equal((await surveyOf(odd, utf8, signal, () => {})).refusals.length, 1);
  assert.deepEqual([survey.firstNanos, survey.lastNanos], [day, 2n * day]);
  const namespace = {
    name: 'n',
    number: 1,
    coldWrites: true,
    retentionNanos: 3n * day,
    bufferPastNanos: 1n,
  };
  const at = (nanos: bigint) => ({ firstNanos: nanos, lastNanos: nanos });
  assert.equal(problemOf(at(day), 4n * day, [namespace]), null);
  assert.match(
    problemOf(at(day), 5n * day, [namespace])!,
    /1970-01-02T00:00:00.000Z.*n \(retention 72h0m0s, cold writes on\)/,
  );
  const hot = { ...namespace, coldWrites: false };
  assert.match(problemOf(at(day), 2n * day, [hot])!, /^no READY .*cold writes off/);
  assert.match(problemOf(at(day), 2n * day, [])!, /there is none/);
});

test('rows have to be taken by each namespace that they go into', () => {
  const day = 86_400_000_000_000n;
  const long = {
    name: 'long',
    number: 1,
    coldWrites: true,
    retentionNanos: 90n * day,
    bufferPastNanos: 1n,
  };
  const short = { ...long, name: 'short', retentionNanos: 2n * day };
  const hot = { ...short, name: 'hot', coldWrites: false };
  const problem = (first: bigint, last: bigint, ...all: readonly (typeof long)[]) =>
    problemOf({ firstNanos: first * day, lastNanos: last * day }, 100n * day, [long, ...all]);
  assert.equal(problem(50n, 100n, short), null, 'what one keeps no more is in the other one');
  assert.equal(problem(50n, 97n, hot), null);
  assert.equal(problem(100n, 100n, hot), null);
  for (const [first, last] of [
    [50n, 99n],
    [99n, 99n],
    [99n, 100n],
  ] as const) {
    const said = /^not each READY namespace takes .*: hot \(retention 48h0m0s, cold writes off\);/;
    assert.match(problem(first, last, short, hot)!, said);
  }
});
