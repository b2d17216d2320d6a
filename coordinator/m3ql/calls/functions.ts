/** How the functions of M3QL are made: of one of Graphite's, or of their own. */
import { assert } from '#lib/assert.ts';
import type { Call } from '../../graphite/calls/call.ts';
import { required, seriesList } from '../../graphite/calls/parameters.ts';
import { functionRow, type FunctionRow } from '../../graphite/calls/row.ts';
import { functions } from '../../graphite/functions/table.ts';
import type { Series } from '../../graphite/series/series.ts';
import { parameterOfRow, type ScriptFunction, type ScriptParameter } from './parameters.ts';

type Evaluate = (call: Call) => Promise<readonly Series[]>;

/**
 * @param names the first is its name, the others are its aliases
 * @param windows for which it wants its series, where these are not its own
 */
export function made(
  names: string,
  parameters: readonly ScriptParameter[],
  evaluate: Evaluate,
  windows: FunctionRow['windows'] = null,
): ScriptFunction {
  const inRow = [seriesList, ...parameters.map(parameterOfRow)];
  const row = { ...rowOf(names, inRow, evaluate), windows };
  return scriptFunction(names, false, parameters, row);
}

/** Makes series: its `step` is that of the request. */
export function beginning(
  names: string,
  parameters: readonly ScriptParameter[],
  evaluate: Evaluate,
): ScriptFunction {
  const inRow = [...parameters.map(parameterOfRow), required('step', 'integer')];
  return scriptFunction(names, true, parameters, rowOf(names, inRow, evaluate));
}

/** Graphite's function of this name. */
export function reused(
  names: string,
  graphiteName: string,
  parameters: readonly ScriptParameter[] = [],
): ScriptFunction {
  return scriptFunction(names, false, parameters, graphiteRow(graphiteName));
}

export function graphiteRow(name: string): FunctionRow {
  const row = functions.get(name);
  assert(row !== undefined, 'Graphite has the function');
  return row;
}

function rowOf(
  names: string,
  parameters: FunctionRow['parameters'],
  evaluate: Evaluate,
): FunctionRow {
  return functionRow('Special', names, '', parameters, evaluate);
}

function scriptFunction(
  names: string,
  begins: boolean,
  parameters: readonly ScriptParameter[],
  row: FunctionRow,
): ScriptFunction {
  const [name = '', ...aliases] = names.split(' ');
  const isKnown = (of: string) => row.parameters.some((each) => each.name === of);
  assert(
    parameters.every(({ of }) => isKnown(of)),
    'the row has all of them',
  );
  return { name, aliases, begins, parameters, row };
}
