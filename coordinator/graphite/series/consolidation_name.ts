/** How rows of a series are put together, by the names of `consolidateBy`. */
export const consolidationNames = [
  'sum',
  'average',
  'avg',
  'avg_zero',
  'min',
  'max',
  'first',
  'last',
] as const;
export type ConsolidationName = (typeof consolidationNames)[number];
