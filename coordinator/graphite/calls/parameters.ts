/** What a function takes, for checks and for clients that ask for the list of functions. */

export type ParameterType =
  | 'aggFunc'
  | 'aggOrSeriesFunc'
  | 'any'
  | 'boolean'
  | 'date'
  | 'float'
  | 'intOrInf'
  | 'intOrInterval'
  | 'integer'
  | 'interval'
  | 'node'
  | 'nodeOrTag'
  | 'seriesList'
  | 'seriesLists'
  | 'string'
  | 'tag';

/** A literal of a target, null for None. */
export type Literal = number | string | boolean | null;

export interface Parameter {
  readonly name: string;
  readonly type: ParameterType;
  readonly isRequired: boolean;
  /** The last one may repeat. */
  readonly isMultiple: boolean;
  readonly default: Literal;
  /** All values that are allowed; empty when the type says it. */
  readonly options: readonly string[];
}

export function required(
  name: string,
  type: ParameterType,
  options: readonly string[] = [],
): Parameter {
  return { name, type, isRequired: true, isMultiple: false, default: null, options };
}

export function optional(
  name: string,
  type: ParameterType,
  byDefault: Literal = null,
  options: readonly string[] = [],
): Parameter {
  return { name, type, isRequired: false, isMultiple: false, default: byDefault, options };
}

/** At least one. */
export function oneOrMore(name: string, type: ParameterType): Parameter {
  return { ...required(name, type), isMultiple: true };
}

export function zeroOrMore(name: string, type: ParameterType): Parameter {
  return { ...optional(name, type), isMultiple: true };
}

/** Of most functions the first one. */
export const seriesList: Parameter = required('seriesList', 'seriesList');
export const seriesLists: Parameter = oneOrMore('seriesLists', 'seriesList');
