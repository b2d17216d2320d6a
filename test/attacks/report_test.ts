import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Observation } from './arena.ts';
import { noneMeasured } from './probe.ts';
import { CampaignReport, quantilesOf } from './report.ts';

function observed(queryMillis: number, writeMillis: number, problems: string[] = []): Observation {
  const measured = {
    ...noneMeasured(),
    queryMillis: Array.from({ length: 100 }, () => queryMillis),
    writeMillis: Array.from({ length: 100 }, () => writeMillis),
  };
  return { measured, rssBeforeBytes: 1, rssMaxBytes: 2, answers: [], problems };
}

function reportOf(...attacked: readonly Observation[]): CampaignReport {
  const report = new CampaignReport();
  report.noteAlone(observed(10, 4));
  for (const observation of attacked) report.noteAttacked('an attack', observation);
  return report;
}

test('quantiles are of all requests, and of none there are none', () => {
  const millis = Array.from({ length: 1000 }, (_, i) => 1000 - i);
  assert.deepEqual(quantilesOf(millis), {
    count: 1000,
    p50Millis: 501,
    p99Millis: 991,
    maxMillis: 1000,
  });
  assert.equal(quantilesOf([]).p99Millis, 0);
});

test('others may wait three times as long as alone, and no query a tenth of a second', () => {
  assert.equal(reportOf(observed(30, 12)).told(1).isGood, true);
  const [slowQuery] = reportOf(observed(31, 12)).judged();
  assert.deepEqual(slowQuery!.broken, ['p99 of the query is 31.0 of 30.0 ms']);
  const [slowWrite] = reportOf(observed(30, 13)).judged();
  assert.deepEqual(slowWrite!.broken, ['p99 of the write is 13.0 of 12.0 ms']);
  const slowMachine = new CampaignReport();
  slowMachine.noteAlone(observed(90, 4));
  slowMachine.noteAttacked('an attack', observed(101, 4));
  assert.equal(slowMachine.told(1).isGood, false);
});

test('one time alone in which an attack was still felt is no measure', () => {
  const report = new CampaignReport();
  for (const millis of [10, 200, 9]) report.noteAlone(observed(millis, 4));
  report.noteAttacked('an attack', observed(31, 12));
  const [judged] = report.judged();
  assert.deepEqual(judged!.broken, ['p99 of the query is 31.0 of 30.0 ms']);
});

test('a problem fails a campaign, whatever the times are', () => {
  const { lines, isGood } = reportOf(observed(10, 4), observed(10, 4, ['a row is gone'])).told(60);
  assert.equal(isGood, false);
  assert.ok(lines.includes('PROBLEM an attack: a row is gone'), lines.join('\n'));
});
