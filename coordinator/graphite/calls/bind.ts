/** Arguments of a call meet the parameters of its function, before anything is read. */
import { badRequest } from '#lib/errors.ts';
import type { CallNode, Node } from '../parse/tree.ts';
import { reducerNamed } from '../math/reducers.ts';
import { intervalSeconds } from '../time/interval.ts';
import { type Argument, argumentError, Arguments } from './arguments.ts';
import type { Literal, Parameter, ParameterType } from './parameters.ts';
import type { FunctionRow } from './row.ts';

/**
 * @param isAggregator whether functions that group may be given this name
 * @throws {TsdbError} BAD_REQUEST when an argument is of a wrong type, unknown, missing or too much
 */
export function bindArguments(
  row: FunctionRow,
  node: CallNode,
  isAggregator: (name: string) => boolean,
): Arguments {
  const { parameters } = row;
  const values = new Map<string, Argument[]>();
  const put = (parameter: Parameter, value: Node) => {
    const argument = argumentOf(node.name, parameter, value, isAggregator);
    const others = values.get(parameter.name);
    if (others === undefined) values.set(parameter.name, [argument]);
    else others.push(argument);
  };
  node.positional.forEach((value, index) => {
    const last = parameters.at(-1);
    const parameter = parameters[index] ?? (last?.isMultiple === true ? last : undefined);
    if (parameter === undefined) {
      throw badRequest(
        `cannot evaluate ${node.name}: takes ${parameters.length} arguments, not ${node.positional.length}`,
      );
    }
    put(parameter, value);
  });
  for (const { name, value } of node.named) {
    const parameter = parameters.find((each) => each.name === name);
    if (parameter === undefined) {
      const names = parameters.map((each) => each.name).join(', ');
      throw badRequest(`cannot evaluate ${node.name}: no argument is named ${name}, but ${names}`);
    }
    if (values.has(name)) throw badRequest(`cannot evaluate ${node.name}: ${name} is given twice`);
    put(parameter, value);
  }
  const bound = new Arguments(node.name, parameters, values);
  for (const { name, isRequired } of parameters) {
    if (isRequired && !bound.has(name)) {
      throw badRequest(`cannot evaluate ${node.name}: ${name} is missing`);
    }
  }
  return bound;
}

function argumentOf(
  functionName: string,
  parameter: Parameter,
  node: Node,
  isAggregator: (name: string) => boolean,
): Argument {
  const { name, type } = parameter;
  const takesSeries = type === 'seriesList' || type === 'seriesLists' || type === 'any';
  if (node.kind === 'path' || node.kind === 'call' || node.kind === 'select') {
    if (takesSeries) return { kind: 'expression', node };
    const text = node.kind === 'path' ? node.path : node.text;
    throw argumentError(functionName, name, `${wantedOf[type]}, not an expression`, text);
  }
  const value = node.kind === 'none' ? null : node.value;
  if (value === null) return { kind: 'literal', value };
  const isInteger = node.kind !== 'number' || node.isInteger;
  const isRight =
    isOfType(type, value, isInteger) || (type === 'aggOrSeriesFunc' && isAggregator(`${value}`));
  if (!isRight) throw argumentError(functionName, name, wantedOf[type], value);
  if (parameter.options.length > 0 && !parameter.options.includes(`${value}`)) {
    const options = parameter.options.join(', ');
    throw argumentError(functionName, name, `has to be one of ${options}`, value);
  }
  return { kind: 'literal', value };
}

const wantedOf: Readonly<Record<ParameterType, string>> = {
  aggFunc: 'has to name an aggregation, as average or max',
  aggOrSeriesFunc: 'has to name an aggregation, as average or sumSeries',
  any: 'has to be series or a number',
  boolean: 'has to be true or false',
  date: 'has to be a time',
  float: 'has to be a number',
  intOrInf: 'has to be a whole number or inf',
  intOrInterval: 'has to be a whole number or an interval such as 5min',
  integer: 'has to be a whole number',
  interval: 'has to be an interval such as 5min',
  node: 'has to be the number of a node',
  nodeOrTag: 'has to be the number of a node or the name of a tag',
  seriesList: 'has to be series',
  seriesLists: 'has to be lists of series',
  string: 'has to be a string',
  tag: 'has to be the name of a tag',
};

const integer = /^[-+]?\d+$/;

/** @param isInteger of a number: written without a fraction */
function isOfType(type: ParameterType, value: NonNullable<Literal>, isInteger: boolean): boolean {
  switch (type) {
    case 'any':
      return true;
    case 'boolean':
      return /^(?:true|false|0|1)$/i.test(`${value}`);
    case 'float':
      return typeof value !== 'string' || (value.trim() !== '' && isFloat(value));
    case 'integer':
    case 'node':
      return isWhole(value, isInteger);
    case 'intOrInf':
      return isWhole(value, isInteger) || /^inf(?:inity)?$/i.test(`${value}`);
    case 'interval':
      return typeof value === 'string' && intervalSeconds(value) !== null;
    case 'intOrInterval':
      if (typeof value === 'string') return intervalSeconds(value) !== null;
      return isWhole(value, isInteger);
    case 'aggFunc':
    case 'aggOrSeriesFunc':
      return typeof value === 'string' && reducerNamed(value) !== undefined;
    case 'nodeOrTag':
      return typeof value === 'string' || isWhole(value, isInteger);
    case 'string':
    case 'tag':
    case 'date':
      return typeof value !== 'boolean' || type === 'string';
    case 'seriesList':
    case 'seriesLists':
      return false;
    default:
      return type satisfies never;
  }
}

function isFloat(text: string): boolean {
  return !Number.isNaN(Number(text));
}

function isWhole(value: number | string | boolean, isInteger: boolean): boolean {
  const isWritten = typeof value === 'string' ? integer.test(value.trim()) : isInteger;
  return typeof value !== 'boolean' && isWritten && Number.isSafeInteger(Number(value));
}
