import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MaintenanceWindow } from './tsdb_cluster.ts';
import { windowsAt } from './maintenance_windows.ts';

const at = (time: string): number => Date.parse(time);

function stateAt(time: string, ...windows: readonly MaintenanceWindow[]): string {
  const { isOpen, untilMillis } = windowsAt(windows, at(time));
  const until = untilMillis === null ? 'ever' : new Date(untilMillis).toISOString();
  return `${isOpen ? 'open' : 'closed'} until ${until.replace(':00.000Z', 'Z')}`;
}

test('without a window it is always open', () => {
  assert.equal(stateAt('2026-11-23T12:00:00Z'), 'open until ever');
});

test('a window opens on its days at its time, in its zone, and closes after its duration', () => {
  // A Saturday in Zurich, where it is one hour later than in UTC.
  const window = {
    days: ['Sat'],
    start: '01:30',
    duration: '4h',
    timeZone: 'Europe/Zurich',
  } as const;
  assert.equal(stateAt('2026-11-23T12:00:00Z', window), 'closed until 2026-11-28T00:30Z');
  assert.equal(stateAt('2026-11-28T00:29:59Z', window), 'closed until 2026-11-28T00:30Z');
  assert.equal(stateAt('2026-11-28T00:30:00Z', window), 'open until 2026-11-28T04:30Z');
  assert.equal(stateAt('2026-11-28T04:29:59Z', window), 'open until 2026-11-28T04:30Z');
  assert.equal(stateAt('2026-11-28T04:30:00Z', window), 'closed until 2026-12-05T00:30Z');
});

test('a window goes past midnight, and windows that touch are one', () => {
  const night = { days: ['Sun'], start: '22:00', duration: '4h' } as const;
  assert.equal(stateAt('2026-11-23T01:00:00Z', night), 'open until 2026-11-23T02:00Z');
  const next = { days: ['Mon'], start: '02:00', duration: '1h' } as const;
  assert.equal(stateAt('2026-11-23T01:00:00Z', next, night), 'open until 2026-11-23T03:00Z');
  assert.equal(stateAt('2026-11-23T03:00:00Z', next, night), 'closed until 2026-11-29T22:00Z');
  assert.equal(
    stateAt('2026-11-25T03:00:00Z', { start: '00:00', duration: '24h' }),
    'open until ever',
  );
});

test('a time that is left out comes as much later, one that is shown twice is the first', () => {
  const window = { start: '02:30', duration: '2h', timeZone: 'Europe/Zurich' } as const;
  // 02:00 is followed by 03:00: 02:30 comes at 03:30, which is 01:30 in UTC.
  assert.equal(stateAt('2027-03-28T01:29:00Z', window), 'closed until 2027-03-28T01:30Z');
  assert.equal(stateAt('2027-03-28T01:30:00Z', window), 'open until 2027-03-28T03:30Z');
  // 02:30 is there at 00:30 and 01:30 in UTC, and the window opens once, for two hours.
  assert.equal(stateAt('2027-10-31T00:29:00Z', window), 'closed until 2027-10-31T00:30Z');
  assert.equal(stateAt('2027-10-31T01:30:00Z', window), 'open until 2027-10-31T02:30Z');
  assert.equal(stateAt('2027-10-31T02:30:00Z', window), 'closed until 2027-11-01T01:30Z');
});

test('what no schema can tell opens nothing, with the reason', () => {
  const problemOf = (over: Partial<MaintenanceWindow>): string | null =>
    windowsAt([{ start: '00:00', duration: '1h', ...over }], 0).problem;
  assert.match(problemOf({ timeZone: 'Europe/Zurick' })!, /Europe\/Zurick is not known/);
  assert.match(problemOf({ duration: '8d' })!, /8d is not 1m to 7d/);
  assert.match(problemOf({ duration: '30s' })!, /not 1m/);
  assert.equal(problemOf({}), null);
});
