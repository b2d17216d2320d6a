import type { PromqlFeatureName } from '#lib/config/schema/promql_features.ts';

/** What Prometheus has behind feature flags, by their names. */
export interface PromqlFeatures {
  /** Functions and aggregations that may still change. */
  readonly experimentalFunctions: boolean;
  /** `anchored` and `smoothed`. */
  readonly extendedRangeSelectors: boolean;
  /** `fill`, `fill_left` and `fill_right` of binary operators. */
  readonly fillModifiers: boolean;
  /** Metric names stay until the end of a query, so that functions between can see them. */
  readonly delayedNameRemoval: boolean;
  /** `stats=all` tells of each step of a query. */
  readonly perStepStats: boolean;
  /** Counters are reset where their start times say so. */
  readonly startTimestamps: boolean;
  /** The labels `__type__` and `__unit__` say what a series is. */
  readonly typeAndUnitLabels: boolean;
}

export const noFeatures: PromqlFeatures = {
  experimentalFunctions: false,
  extendedRangeSelectors: false,
  fillModifiers: false,
  delayedNameRemoval: false,
  perStepStats: false,
  startTimestamps: false,
  typeAndUnitLabels: false,
};

export const allFeatures: PromqlFeatures = {
  experimentalFunctions: true,
  extendedRangeSelectors: true,
  fillModifiers: true,
  delayedNameRemoval: true,
  perStepStats: true,
  startTimestamps: true,
  typeAndUnitLabels: true,
};

const fields: Readonly<Record<PromqlFeatureName, keyof PromqlFeatures>> = {
  'promql-experimental-functions': 'experimentalFunctions',
  'promql-extended-range-selectors': 'extendedRangeSelectors',
  'promql-binop-fill-modifiers': 'fillModifiers',
  'promql-delayed-name-removal': 'delayedNameRemoval',
  'promql-per-step-stats': 'perStepStats',
  'use-start-timestamps': 'startTimestamps',
  'type-and-unit-labels': 'typeAndUnitLabels',
};

export function featuresOf(names: readonly PromqlFeatureName[]): PromqlFeatures {
  const given = names.map((name): [keyof PromqlFeatures, true] => [fields[name], true]);
  return { ...noFeatures, ...Object.fromEntries(given) };
}
