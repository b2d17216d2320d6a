/** Rules that give metrics of statsd names and labels of Prometheus, in the form of statsd_exporter's file. */
import type { SearchRegexp } from '#lib/regexp/regexp.ts';
import type { EventType } from '../lines/line.ts';

/** What timers, histograms and distributions become. */
export type ObserverOptions =
  | {
      readonly type: 'summary';
      /** Each 0 to 1. */
      readonly quantiles: readonly number[];
      /** Quantiles are of the values of so long a time. */
      readonly maxAgeMillis: number;
    }
  | {
      readonly type: 'histogram';
      /** Upper bounds, ascending, without infinity. */
      readonly bounds: readonly number[];
    };

/** Which of the three kinds of metric a rule takes. */
export type MetricKind = 'counter' | 'gauge' | 'observer';

export type RuleMatch =
  /** Components of a glob, each a text or `*`. */
  | { readonly type: 'glob'; readonly components: readonly string[] }
  /** Searched anywhere in the name. */
  | { readonly type: 'regex'; readonly regexp: SearchRegexp };

export interface MappingRule {
  readonly match: RuleMatch;
  /** Null for all. */
  readonly kind: MetricKind | null;
  readonly isDrop: boolean;
  /** May have `$1` in it, as values of labels. */
  readonly name: string;
  readonly labels: readonly (readonly [name: string, value: string])[];
  readonly settings: MetricSettings;
}

/** Of what a rule takes, or of what none takes. */
export interface MetricSettings {
  readonly observer: ObserverOptions;
  /** After so long without an event a series is forgotten; 0 for never. */
  readonly ttlMillis: number;
  /** Labels of lines win over those of the rule. */
  readonly honorsLabels: boolean;
  /** Values are multiplied by it. */
  readonly scale: number;
}

export interface Mapping {
  readonly rules: readonly MappingRule[];
  /** Of the globs that match, the first in the file wins; else the one that says more. */
  readonly isOrdered: boolean;
  readonly defaults: MetricSettings;
}

export function kindOf(type: EventType): MetricKind {
  if (type === 'counter') return 'counter';
  return type === 'gauge' || type === 'set' ? 'gauge' : 'observer';
}
