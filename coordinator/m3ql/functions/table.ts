/** Every function of M3QL by its names; `fetch`, which reads, is the compiler's. */
import type { FunctionRow } from '../../graphite/calls/row.ts';
import type { ScriptFunction } from '../calls/parameters.ts';
import { aggregateFunctions } from './aggregate.ts';
import { histogramFunctions } from './histograms.ts';
import { keptFunctions } from './kept.ts';
import { lineFunctions } from './lines.ts';
import { nameFunctions } from './names.ts';
import { pairFunctions } from './pairs.ts';
import { reusedFunctions } from './reused.ts';

/** Each once. */
export const scriptFunctionList: readonly ScriptFunction[] = [
  ...aggregateFunctions,
  ...histogramFunctions,
  ...keptFunctions,
  ...lineFunctions,
  ...nameFunctions,
  ...pairFunctions,
  ...reusedFunctions,
];

/** By name and by alias. */
export const scriptFunctions: ReadonlyMap<string, ScriptFunction> = new Map(
  scriptFunctionList.flatMap((each) =>
    [each.name, ...each.aliases].map((name) => [name, each] as const),
  ),
);

/** What carries them out, as calls of compiled scripts name them. */
export const scriptRows: ReadonlyMap<string, FunctionRow> = new Map(
  [...scriptFunctions].map(([name, { row }]) => [name, row] as const),
);

/** Names of M3's list that stand for nothing which anybody has told, and why. */
export const refusedNames: ReadonlyMap<string, string> = new Map([
  ['anomalies', 'finds anomalies by a model of M3 that is not published'],
  ['exec', 'runs a query that is stored elsewhere, and nothing stores queries here'],
  ['execute', 'runs a query that is stored elsewhere, and nothing stores queries here'],
  ['jainCP', 'has no meaning that M3 has published'],
  ['showAnomalyThresholds', 'shows the bounds of a model of M3 that is not published'],
]);
