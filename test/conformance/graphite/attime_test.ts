/** Times and intervals as graphite-web reads them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseTime } from '#coordinator/graphite/time/attime.ts';
import { parseInterval } from '#coordinator/graphite/time/interval.ts';
import { Zone } from '#coordinator/graphite/time/zone.ts';
import { hasSuites, readSuite } from '../suites.ts';

interface TimeSuite {
  readonly offsets: readonly {
    readonly spec: string;
    readonly seconds?: number;
    readonly error?: true;
  }[];
  readonly cases: readonly {
    readonly spec: string;
    readonly tz: string;
    readonly now: number;
    readonly expected?: number;
    readonly error?: true;
  }[];
}

function outcomeOf(read: () => number): number | string {
  try {
    return read();
  } catch {
    return 'refused';
  }
}

if (hasSuites('graphite')) {
  const { offsets, cases } = readSuite<TimeSuite>('graphite/attime.json');

  test('intervals are those of graphite-web', () => {
    const wrong = offsets.flatMap(({ spec, seconds, error }) => {
      const is = outcomeOf(() => parseInterval(spec) + 0);
      const should = error === true ? 'refused' : seconds!;
      return is === should ? [] : [`${spec}: ${is}, not ${should}`];
    });
    assert.deepEqual(wrong, []);
  });

  test('times are those of graphite-web, in each time zone', () => {
    const wrong = cases.flatMap(({ spec, tz, now, expected, error }) => {
      const is = outcomeOf(() => parseTime(spec, { nowSeconds: now, zone: new Zone(tz) }));
      const should = error === true ? 'refused' : expected!;
      return is === should ? [] : [`${spec} in ${tz} at ${now}: ${is}, not ${should}`];
    });
    assert.deepEqual(wrong, []);
  });
}
