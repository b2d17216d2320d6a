/** What of PromQL is used when asked for alone, by the names of Prometheus' `--enable-feature`. */
export const promqlFeatureNames = [
  'promql-experimental-functions',
  'promql-extended-range-selectors',
  'promql-binop-fill-modifiers',
  'promql-delayed-name-removal',
  'promql-per-step-stats',
  'use-start-timestamps',
  'type-and-unit-labels',
] as const;

export type PromqlFeatureName = (typeof promqlFeatureNames)[number];
