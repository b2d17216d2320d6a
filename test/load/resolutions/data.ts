/**
 * What is written for queries over several resolutions: gauges below and above 0, whole and decimal, counters that begin again
 * seldom, often and all the time, series that live for some days and end with a stale marker, and series with gaps.
 */
import { SeededRandom } from '../../seeded_random.ts';

export const minuteMillis = 60_000;
export const hourMillis: number = 60 * minuteMillis;
export const dayMillis: number = 24 * hourMillis;

/** Rows of one series, in ascending time; all times are whole minutes. */
export interface LoadSeries {
  /** `instance` is of this one alone. */
  readonly labels: Readonly<Record<'__name__' | 'instance' | 'zone', string>>;
  readonly isCounter: boolean;
  /** Without decimals. */
  readonly isWhole: boolean;
  readonly timesMillis: readonly number[];
  /** 0 where the row is a stale marker. */
  readonly values: readonly number[];
  readonly isStale: readonly boolean[];
}

interface Kind {
  readonly name: string;
  readonly count: number;
  readonly isCounter: boolean;
  readonly isWhole: boolean;
  /** Minutes of life in the whole, by series; all of them when there is none. */
  readonly lives?: readonly (readonly [fromDay: number, toDay: number])[];
  /** The value of the next minute, or null for a gap; told how many minutes after 1970 it is. */
  readonly values: (random: SeededRandom) => (minute: number) => number | null | 'stale';
}

/** A counter whose lives are of so many minutes. */
function counter(
  [livesMin, livesMax]: readonly [number, number],
  growthMax: number,
  decimals = 1,
): Kind['values'] {
  return (random) => {
    let [value, left, growth] = [random.below(1000), 0, 1 + random.below(growthMax)];
    return () => {
      if (left <= 0) {
        left = livesMin + random.below(livesMax - livesMin);
        // Some pass what they had come to within a window, others do not.
        growth = 1 + random.below(growthMax);
        value = random.below(3);
      }
      left -= 1;
      value += random.below(growth * decimals);
      return value / decimals;
    };
  };
}

/** A walk around a middle, which may be below 0. */
function gauge(middle: number, step: number, decimals: number): Kind['values'] {
  return (random) => {
    let value = 0;
    return () => {
      value = Math.round(value * 0.999) + random.below(2 * step + 1) - step;
      return (middle * decimals + value) / decimals;
    };
  };
}

function withGaps(of: Kind['values']): Kind['values'] {
  return (random) => {
    const next = of(random);
    let [until, isGap] = [0, false];
    return (minute) => {
      if (minute >= until) {
        isGap = !isGap && until > 0;
        until = minute + (isGap ? 60 + random.below(480) : 300 + random.below(2000));
      }
      const value = next(minute);
      return isGap ? null : value;
    };
  };
}

/** Ten minutes of every three hours, each ended with a stale marker. */
function jobs(of: Kind['values']): Kind['values'] {
  return (random) => {
    const next = of(random);
    return (minute) => {
      const at = (minute - 47) % 180;
      return at < 10 ? next(minute) : at === 10 ? 'stale' : null;
    };
  };
}

const kinds: readonly Kind[] = [
  {
    name: 'level',
    count: 3,
    isCounter: false,
    isWhole: false,
    values: gauge(1.25, 400, 100),
  },
  { name: 'balance', count: 3, isCounter: false, isWhole: true, values: gauge(-20, 50, 1) },
  {
    name: 'requests_total',
    count: 4,
    isCounter: true,
    isWhole: true,
    values: counter([300, 4_000], 90),
  },
  {
    name: 'bursts_total',
    count: 2,
    isCounter: true,
    isWhole: true,
    values: counter([20, 100], 400),
  },
  {
    name: 'flapping_total',
    count: 1,
    isCounter: true,
    isWhole: true,
    values: counter([4, 10], 50),
  },
  {
    name: 'busy_seconds_total',
    count: 2,
    isCounter: true,
    isWhole: false,
    values: counter([1_000, 3_000], 60, 1000),
  },
  {
    name: 'lease',
    count: 4,
    isCounter: false,
    isWhole: false,
    lives: [
      [4.3, 9.1],
      [21.4, 33.7],
      [52.2, 58.6],
      [58.2, 59.4],
    ],
    values: gauge(7.5, 30, 10),
  },
  {
    name: 'lease_uses_total',
    count: 2,
    isCounter: true,
    isWhole: true,
    lives: [
      [28.6, 30.2],
      [57.1, 58.4],
    ],
    values: counter([600, 2_000], 20),
  },
  {
    name: 'distant',
    count: 2,
    isCounter: false,
    isWhole: true,
    values: withGaps(gauge(300, 9, 1)),
  },
  {
    name: 'distant_total',
    count: 1,
    isCounter: true,
    isWhole: true,
    values: withGaps(counter([100_000, 100_001], 30)),
  },
  { name: 'job_rows', count: 1, isCounter: false, isWhole: true, values: jobs(gauge(500, 90, 1)) },
  // Each begins at 0 with the job's first row, which is the first one of its slice now and then, and comes to more or less than
  // the one before.
  {
    name: 'job_total',
    count: 1,
    isCounter: true,
    isWhole: true,
    values: jobs((random) => {
      let [value, growth] = [0, 1];
      return (minute) => {
        const isFirst = (minute - 47) % 180 === 0;
        if (isFirst) growth = 2 + random.below(200);
        value = (isFirst ? 0 : value) + random.below(growth);
        return value;
      };
    }),
  },
];

export interface DataOptions {
  /** Whole minutes. */
  readonly startMillis: number;
  /** The last row is of this time. */
  readonly endMillis: number;
  readonly seed: number;
}

export function makeSeries(options: DataOptions): LoadSeries[] {
  const random = new SeededRandom(options.seed);
  return kinds.flatMap((kind) =>
    Array.from({ length: kind.count }, (_, i) => seriesOf(kind, i, random, options)),
  );
}

function seriesOf(
  kind: Kind,
  ordinal: number,
  random: SeededRandom,
  { startMillis, endMillis }: DataOptions,
): LoadSeries {
  const timesMillis: number[] = [];
  const values: number[] = [];
  const isStale: boolean[] = [];
  const next = kind.values(random);
  const life = kind.lives?.[ordinal];
  const minuteOf = (day: number): number =>
    Math.round((startMillis + day * dayMillis) / minuteMillis);
  const from = life === undefined ? startMillis / minuteMillis : minuteOf(life[0]);
  const until = life === undefined ? Number.POSITIVE_INFINITY : minuteOf(life[1]);
  for (let minute = from; minute <= Math.min(until, endMillis / minuteMillis); minute++) {
    const value = minute === until ? 'stale' : next(minute);
    if (value === null) continue;
    timesMillis.push(minute * minuteMillis);
    values.push(value === 'stale' ? 0 : value);
    isStale.push(value === 'stale');
  }
  return {
    labels: {
      __name__: kind.name,
      instance: `${kind.name}-${ordinal}`,
      zone: `zone-${ordinal % 2}`,
    },
    isCounter: kind.isCounter,
    isWhole: kind.isWhole,
    timesMillis,
    values,
    isStale,
  };
}
