/** What series go into, remembered from window to window: to match one takes longer than to add its rows up. */
import type { Random } from '#lib/env/env.ts';
import { decodeTags } from '#lib/tags.ts';
import type { Pipeline, RuleMatcher } from '../match.ts';
import type { StoragePolicy } from '../rules.ts';
import type { RulesOverTime, RuleSetsOverTime } from '../sets/over_time.ts';
import { KnownSeries } from './known_series.ts';
import { Outputs, type Route } from './outputs.ts';

/** Of some 40 bytes each; further ones are matched in each map. */
const seriesMax = 16_000_000;
/** When there are so many times the series of a map all are forgotten: most are gone by then. */
const goneFactor = 2;
const seriesSpare = 10_000;

/** What some series have in common. */
export interface KnownRoutes {
  /** The set that they are matched by; null for none. */
  readonly rules: RulesOverTime | null;
  /** Those of the rules of one time; null before the first. */
  readonly matcher: RuleMatcher | null;
  readonly routes: readonly Route[];
  /** The same of another time: windows of before and after a change are made in turns for a while. */
  readonly former: KnownRoutes | null;
  /** Tells the matcher and the routes from others. */
  readonly key: string;
}

const nothing: KnownRoutes = { rules: null, matcher: null, routes: [], former: null, key: '' };

export class SeriesRoutes {
  readonly #policy: StoragePolicy;
  #sets: RuleSetsOverTime | null = null;
  #outputs = new Outputs();
  readonly #series: KnownSeries;
  /** By their numbers, from 1 on. */
  #all: KnownRoutes[] = [nothing];
  /** What is known of the series that was asked for last. */
  #last: KnownRoutes = nothing;
  #unmatched = new Map<RulesOverTime | null, number>();
  /** Of several sets, and times: there are few. */
  #matchers: RuleMatcher[] = [];
  /** By the keys of the former and the present. */
  #matched = new Map<string, number>();
  #ofPipelines = new WeakMap<Pipeline, Route | null>();
  /** Of the map that began last. */
  #asked = 0;
  /** The most of a map, since all were forgotten. */
  #askedMost = 0;

  constructor(policy: StoragePolicy, random: Pick<Random, 'u32'>) {
    this.#policy = policy;
    this.#series = new KnownSeries(seriesMax, random);
  }

  /** Before a map of many series: what is known of other sets is forgotten. */
  begin(sets: RuleSetsOverTime): void {
    this.#askedMost = Math.max(this.#askedMost, this.#asked);
    this.#asked = 0;
    const mostAreGone = this.#series.count > goneFactor * this.#askedMost + seriesSpare;
    if (this.#sets !== sets || mostAreGone) {
      this.#sets = sets;
      this.#askedMost = 0;
      this.#outputs = new Outputs();
      this.#series.forget();
      this.#all = [nothing];
      this.#unmatched = new Map();
      this.#matchers = [];
      this.#matched = new Map();
      this.#ofPipelines = new WeakMap();
    }
  }

  /** @param tags canonical */
  of(tags: Uint8Array): KnownRoutes {
    this.#asked += 1;
    const number = this.#series.find(tags);
    if (number !== 0) {
      return (this.#last = this.#all[number]!);
    }
    const rules = this.#sets!.of(decodeTags(tags));
    let made = this.#unmatched.get(rules);
    if (made === undefined) {
      made = this.#all.push({ ...nothing, rules }) - 1;
      this.#unmatched.set(rules, made);
    }
    return this.#know(made);
  }

  /** @param tags of the series that was asked for last, of which more is known then: `last` */
  by(matcher: RuleMatcher, tags: Uint8Array): readonly Route[] {
    const { rules, routes: before, former, matcher: ofBefore } = this.#last;
    if (ofBefore === matcher) return before;
    if (former?.matcher === matcher) return former.routes;
    const routes = matcher
      .matchRollups(decodeTags(tags))
      .map((pipeline) => this.#routeOf(pipeline))
      .filter((route) => route !== null)
      .filter(countsOf);
    let at = this.#matchers.indexOf(matcher);
    if (at < 0) at = this.#matchers.push(matcher) - 1;
    const key = `${at}:${routes.map(({ number }) => number).join()}`;
    const keyOfBoth = `${this.#last.key} ${key}`;
    let made = this.#matched.get(keyOfBoth);
    if (made === undefined) {
      const known = ofBefore === null ? null : { ...this.#last, former: null };
      made = this.#all.push({ rules, matcher, routes, former: known, key }) - 1;
      this.#matched.set(keyOfBoth, made);
    }
    return this.#know(made).routes;
  }

  get last(): KnownRoutes {
    return this.#last;
  }

  /** Of the series that was asked for last. */
  #know(number: number): KnownRoutes {
    this.#series.set(number);
    return (this.#last = this.#all[number]!);
  }

  #routeOf(pipeline: Pipeline): Route | null {
    let route = this.#ofPipelines.get(pipeline);
    if (route === undefined) {
      route = this.#outputs.routeOf(pipeline, this.#policy);
      this.#ofPipelines.set(pipeline, route);
    }
    return route;
  }
}

/**
 * As in M3: what a series comes to before it is rolled up goes into an output once, whichever rules ask for it; each row of it as
 * often as rules do.
 */
function countsOf(route: Route, at: number, all: readonly Route[]): boolean {
  return route.type === null || all.indexOf(route) === at;
}
