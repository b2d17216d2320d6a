/** What series go into, remembered from window to window: to match one takes longer than to add its rows up. */
import { decodeTags } from '#lib/tags.ts';
import type { RuleMatcher } from '../match.ts';
import type { StoragePolicy } from '../rules.ts';
import type { RulesOverTime, RuleSetsOverTime } from '../sets/over_time.ts';
import { Outputs, type Route } from './outputs.ts';

/** Of some 200 bytes each; with more all are forgotten. */
const seriesMax = 1_000_000;

interface KnownSeries {
  /** The set that it is matched by; null for none. */
  readonly rules: RulesOverTime | null;
  /** Those of the rules of one time. */
  matcher: RuleMatcher | null;
  routes: readonly Route[];
}

export class SeriesRoutes {
  readonly #policy: StoragePolicy;
  #sets: RuleSetsOverTime | null = null;
  #outputs = new Outputs();
  /** By canonical tags. */
  #known = new Map<string, KnownSeries>();

  constructor(policy: StoragePolicy) {
    this.#policy = policy;
  }

  /** Before a map of many series: what is known of other sets is forgotten. */
  begin(sets: RuleSetsOverTime): void {
    if (this.#sets === sets && this.#known.size < seriesMax) return;
    this.#sets = sets;
    this.#known = new Map();
    this.#outputs = new Outputs();
  }

  /** @param tags canonical */
  of(tags: Uint8Array): KnownSeries {
    const key = Buffer.from(tags.buffer, tags.byteOffset, tags.length).toString('latin1');
    let series = this.#known.get(key);
    if (series === undefined) {
      series = { rules: this.#sets!.of(decodeTags(tags)), matcher: null, routes: [] };
      this.#known.set(key, series);
    }
    return series;
  }

  /** @param series of the tags */
  routesBy(matcher: RuleMatcher, series: KnownSeries, tags: Uint8Array): readonly Route[] {
    if (series.matcher !== matcher) {
      const pipelines = matcher.matchRollups(decodeTags(tags));
      series.routes = this.#outputs.routesOf(pipelines, this.#policy);
      series.matcher = matcher;
    }
    return series.routes;
  }
}
