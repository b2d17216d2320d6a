/** What scripts give to functions, and what it is to the functions of Graphite's language that carry them out. */
import type { Parameter, ParameterType } from '../../graphite/calls/parameters.ts';
import type { FunctionRow } from '../../graphite/calls/row.ts';

export type ScriptType =
  /** The name of a reducer. */
  | 'aggregation'
  | 'boolean'
  /** A whole number. */
  | 'count'
  | 'glob'
  /** A length of time above 0. */
  | 'interval'
  /** A whole number, or inf. */
  | 'limit'
  | 'number'
  /** A number above 0, at most 100. */
  | 'percentile'
  /** A pipeline in parentheses, or a number for a line there. */
  | 'series'
  /** An interval with a sign; without one it goes into the past. */
  | 'shift'
  /** An interval that becomes whole steps of the request: rows that are closer to each other are in no answer. */
  | 'steps'
  | 'tag'
  | 'tagOrSeries'
  | 'text'
  /** A number of rows, or an interval that becomes whole steps. */
  | 'window';

export interface ScriptParameter {
  readonly name: string;
  /** The parameter of the row. */
  readonly of: string;
  readonly type: ScriptType;
  readonly isRequired: boolean;
  /** The last one may repeat. */
  readonly isMultiple: boolean;
}

export interface ScriptFunction {
  readonly name: string;
  readonly aliases: readonly string[];
  /** It begins pipelines: it takes no series and makes some, and the last parameter of its row is the step of the request in seconds. */
  readonly begins: boolean;
  readonly parameters: readonly ScriptParameter[];
  /** Its first parameter is the series that come through the pipe, unless `begins`. */
  readonly row: FunctionRow;
}

/** @param name with that of the row's parameter behind a colon where it is another one */
export function needs(name: string, type: ScriptType): ScriptParameter {
  const [own = '', of = own] = name.split(':');
  return { name: own, of, type, isRequired: true, isMultiple: false };
}

export function may(name: string, type: ScriptType): ScriptParameter {
  return { ...needs(name, type), isRequired: false };
}

/** Any number of them, none included. */
export function several(name: string, type: ScriptType): ScriptParameter {
  return { ...may(name, type), isMultiple: true };
}

const typeInRow: Readonly<Record<ScriptType, ParameterType>> = {
  aggregation: 'aggFunc',
  boolean: 'boolean',
  count: 'integer',
  glob: 'string',
  interval: 'interval',
  limit: 'intOrInf',
  number: 'float',
  percentile: 'float',
  series: 'any',
  shift: 'interval',
  steps: 'interval',
  tag: 'string',
  tagOrSeries: 'any',
  text: 'string',
  window: 'intOrInterval',
};

/** As rows have it. */
export function parameterOfRow({ of, type, isRequired, isMultiple }: ScriptParameter): Parameter {
  return { name: of, type: typeInRow[type], isRequired, isMultiple, default: null, options: [] };
}

/** How a call is written, for messages: `summarize interval [func] [alignToFrom]`. */
export function usageOf({ name, parameters }: ScriptFunction): string {
  return [name, ...parameters.map(usageOfParameter)].join(' ');
}

function usageOfParameter({ name, type, isRequired, isMultiple }: ScriptParameter): string {
  const shown = `${type === 'series' ? `(${name})` : name}${isMultiple ? ' …' : ''}`;
  return isRequired ? shown : `[${shown}]`;
}
