/** What rows of a window come to: M3's types, by their names in rules. */

const names = [
  'Last',
  'Min',
  'Max',
  'Mean',
  'Median',
  'Count',
  'Sum',
  'SumSq',
  'Stdev',
  'P10',
  'P20',
  'P25',
  'P30',
  'P40',
  'P50',
  'P60',
  'P70',
  'P75',
  'P80',
  'P90',
  'P95',
  'P99',
  'P999',
  'P9999',
] as const;

export type AggregationType = (typeof names)[number];

export const aggregationTypes: readonly AggregationType[] = names;

/** Those that every window tells. */
export const windowTypes = ['Mean', 'Last', 'Min', 'Max', 'Sum', 'Count'] as const;

export type WindowType = (typeof windowTypes)[number];

export function isWindowType(type: AggregationType): type is WindowType {
  return (windowTypes as readonly AggregationType[]).includes(type);
}

const byLowerName = new Map(aggregationTypes.map((name) => [name.toLowerCase(), name]));

/** By its name in any case; null when there is no such type. */
export function aggregationTypeOf(name: string): AggregationType | null {
  return byLowerName.get(name.toLowerCase()) ?? null;
}
