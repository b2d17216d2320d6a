import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from '#lib/errors.ts';
import { alignedStart } from './alignment.ts';
import { parseTime } from './attime.ts';
import { parseInterval } from './interval.ts';
import { Zone } from './zone.ts';

const secondsOf = (iso: string) => Date.parse(iso) / 1000;

test('parseTime() reads times of day by the calendar of the zone', () => {
  const berlin = { nowSeconds: secondsOf('2024-07-10T22:30:00Z'), zone: new Zone('Europe/Berlin') };
  // It is past midnight there.
  assert.equal(parseTime('midnight', berlin), secondsOf('2024-07-10T22:00:00Z'));
  assert.equal(parseTime('noon_yesterday', berlin), secondsOf('2024-07-10T10:00:00Z'));
  assert.equal(parseTime('8:15_20240110', berlin), secondsOf('2024-01-10T07:15:00Z'));
  assert.equal(parseTime('midnight+1d', berlin), secondsOf('2024-07-11T22:00:00Z'));
  assert.equal(parseTime('1704110400', berlin), 1_704_110_400);
});

test('a time that clocks skip or have twice is one time', () => {
  const zone = new Zone('Europe/Berlin');
  const at = { nowSeconds: 0, zone };
  assert.equal(parseTime('02:30_20240331', at), secondsOf('2024-03-31T01:30:00Z'));
  assert.equal(parseTime('02:30_20241027', at), secondsOf('2024-10-27T01:30:00Z'));
  assert.equal(zone.isDaylightSaving(secondsOf('2024-07-01T00:00:00Z')), true);
  assert.equal(zone.isDaylightSaving(secondsOf('2024-01-01T00:00:00Z')), false);
});

test('alignedStart() gives the beginning of a unit in the zone', () => {
  const zone = new Zone('Asia/Kolkata');
  const now = secondsOf('2024-02-29T20:41:07Z');
  assert.equal(alignedStart(now, 'minutes', zone), secondsOf('2024-02-29T20:41:00Z'));
  assert.equal(alignedStart(now, 'hours', zone), secondsOf('2024-02-29T20:30:00Z'));
  assert.equal(alignedStart(now, 'days', zone), secondsOf('2024-02-29T18:30:00Z'));
  assert.equal(alignedStart(now, 'weeks', zone), secondsOf('2024-02-25T18:30:00Z'));
  assert.equal(alignedStart(now, 'weeks7', zone), secondsOf('2024-02-24T18:30:00Z'));
  assert.equal(alignedStart(now, 'months', zone), secondsOf('2024-02-29T18:30:00Z'));
  assert.equal(alignedStart(now, 'years', zone), secondsOf('2023-12-31T18:30:00Z'));
});

test('what is no time, no interval and no zone is refused with its text', () => {
  const at = { nowSeconds: 0, zone: new Zone('UTC') };
  const refused = (read: () => unknown, text: RegExp) =>
    assert.throws(read, (error) => error instanceof TsdbError && text.test(error.message));
  for (const text of ['25:00', 'feb 31', 'yesteryear', '20241301x', '9'.repeat(20)]) {
    refused(() => parseTime(text, at), /cannot read time: .*: \S/);
  }
  for (const text of ['5', '1m', '1h-5min', '9'.repeat(400) + 's']) {
    refused(() => parseInterval(text), /cannot read interval: /);
  }
  refused(() => new Zone('Mars/Olympus'), /no.* of this name: Mars\/Olympus/);
});

test('texts that are longer than any time are refused before they are read', () => {
  const at = { nowSeconds: 0, zone: new Zone('UTC') };
  for (const [read, reason] of [
    [() => parseTime(`-${'1s'.repeat(1000)}`, at), /cannot read time: longer than 200 characters/],
    [() => parseTime('_'.repeat(201), at), /cannot read time: longer than 200 characters: _/],
    [() => parseInterval('1s'.repeat(101)), /cannot read interval: longer than 200 characters: 1/],
    [() => new Zone('x'.repeat(101)), /cannot read time zone: longer than 100 characters: x/],
  ] as const) {
    assert.throws(
      read,
      (error) =>
        error instanceof TsdbError && error.code === 'BAD_REQUEST' && reason.test(error.message),
    );
  }
  assert.equal(parseInterval('1s'.repeat(100)), 100);
});
