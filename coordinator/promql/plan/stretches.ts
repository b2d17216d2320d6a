/**
 * Stretches of a selector's steps, by what is read of them: samples where these go back to where a step's window begins,
 * else the finest windows that do (docs/AGGREGATION.md). No window of a step is read from two of them.
 */
import type { Matcher, Resolution, SeriesPart, Timeline } from '../../select/storage.ts';

/** Steps [from, from + count), read from samples, or from windows. */
export interface Stretch {
  readonly from: number;
  readonly count: number;
  readonly parts: readonly SeriesPart[];
}

/** When a step's look begins: at `startMillis + i * stepMillis`, less the range. */
export interface Looking {
  readonly startMillis: number;
  /** Not below 0. */
  readonly stepMillis: number;
  readonly stepCount: number;
}

/** What may be read, and how far a reference time has to be for that to have all that a step looks at. */
interface Choice {
  readonly of: Resolution | null;
  readonly fromMillis: number;
  /** How far back a step looks. */
  readonly rangeMillis: number;
}

const takesAll = ({ of }: Choice): boolean => of === null || of.takesAll;

/**
 * @param looking reference times of the steps
 * @param rangeOf how far back a step looks in windows of a resolution, or in samples (null), for a row before its range, too
 */
export function stretchesOf(
  timeline: Timeline,
  looking: Looking,
  rangeOf: (of: Resolution | null) => number,
  matchers: readonly Matcher[],
): Stretch[] {
  const { startMillis, stepMillis, stepCount } = looking;
  const { samplesFromMillis, resolutions, places } = timeline;
  const choiceOf = (of: Resolution | null, sinceMillis: number): Choice => {
    const rangeMillis = rangeOf(of);
    return { of, fromMillis: sinceMillis + rangeMillis, rangeMillis };
  };
  // The finest first.
  const choices = [
    ...(samplesFromMillis === Number.POSITIVE_INFINITY ? [] : [choiceOf(null, samplesFromMillis)]),
    ...resolutions.map((of) => choiceOf(of, of.fromMillis)),
  ];
  const isOneStep = stepMillis === 0 || stepCount <= 1;
  const lastMillis = isOneStep ? startMillis : startMillis + (stepCount - 1) * stepMillis;
  const longestMillis = Math.max(
    ...choices.map(({ of, rangeMillis }) => rangeMillis + resolutionOf(of)),
  );
  const changes = places?.changes([matchers], startMillis - longestMillis, lastMillis) ?? [];
  // Steps at which another choice begins, and those from which on steps look behind a change of rules, and not before it.
  const firsts = new Set([0]);
  const begins = choices.map(({ fromMillis }) => fromMillis);
  for (const { of, rangeMillis } of choices) {
    for (const millis of changes) {
      // A window is of the rules of its begin.
      const end = Math.ceil(millis / resolutionOf(of)) * resolutionOf(of);
      begins.push(end + resolutionOf(of), end + rangeMillis);
    }
  }
  if (!isOneStep) {
    for (const millis of begins) {
      const first = Math.ceil((millis - startMillis) / stepMillis);
      if (first > 0 && first < stepCount) firsts.add(first);
    }
  }
  const sorted = [...firsts].sort((a, b) => a - b);
  const stretches: (Stretch & { readonly key: string })[] = [];
  for (const [i, from] of sorted.entries()) {
    const count = (sorted[i + 1] ?? stepCount) - from;
    const reference = startMillis + from * stepMillis;
    const sources = sourcesAt(choices, reference, places !== null);
    const untilMillis = isOneStep ? reference : reference + Math.max(0, count - 1) * stepMillis;
    const asked = sources.map(({ of, rangeMillis }) => {
      return { of, afterMillis: reference - rangeMillis, untilMillis };
    });
    const parts =
      places === null
        ? [{ of: sources[0]!.of, restriction: null }]
        : places.parts([matchers], asked);
    const key = JSON.stringify(
      parts.map(({ of, restriction }) => [of?.namespace, restriction?.key]),
    );
    const before = stretches.at(-1);
    if (before?.key === key) {
      stretches[stretches.length - 1] = { ...before, count: before.count + count };
    } else stretches.push({ from, count, parts, key });
  }
  return stretches;
}

/**
 * What covers all that a step looks at, the finest first: the finest of those that take all series, and with `areSome` the
 * others, too, and behind them what does not go back so far, for series that nobody else has. Of what covers nothing, the one
 * that goes back furthest is read all the same.
 */
function sourcesAt(choices: readonly Choice[], reference: number, areSome: boolean): Choice[] {
  const isCovering = ({ fromMillis }: Choice): boolean => reference >= fromMillis;
  const whole = choices.filter(takesAll);
  const among = whole.length === 0 ? choices : whole;
  const furthest = among.reduce((a, b) => (b.fromMillis < a.fromMillis ? b : a));
  const first = among.find(isCovering) ?? furthest;
  if (!areSome) return [first];
  const others = choices.filter((each) => !isCovering(each));
  return [...choices.filter(isCovering), ...others.sort((a, b) => a.fromMillis - b.fromMillis)];
}

/** Of samples that of times. */
const resolutionOf = (of: Resolution | null): number => of?.resolutionMillis ?? 1;

/** Of windows a range has four at least, or its function has nothing to tell of. */
const windowsOfRange = 4;
/** An instant selector looks back so many, where its look-back is shorter. */
const windowsOfLook = 2;

export function rangeOverWindows(
  rangeMillis: number,
  of: Pick<Resolution, 'resolutionMillis'> | null,
): number {
  return of === null ? rangeMillis : Math.max(rangeMillis, windowsOfRange * of.resolutionMillis);
}

export function lookbackOverWindows(lookbackMillis: number, of: Resolution | null): number {
  return of === null
    ? lookbackMillis
    : Math.max(lookbackMillis, windowsOfLook * of.resolutionMillis);
}
