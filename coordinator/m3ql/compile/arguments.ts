/** Arguments of a call by the parameters of its function. */
import { shownText, type TsdbError } from '#lib/errors.ts';
import type { Work } from '#lib/turns/turns.ts';
import type { Node } from '../../graphite/parse/tree.ts';
import { type ScriptFunction, type ScriptParameter, usageOf } from '../calls/parameters.ts';
import { nodeOf } from '../calls/values.ts';
import { nameSuggestion } from '../parse/suggestion.ts';
import type { Argument, Call, Pipeline } from '../parse/tree.ts';

/** Of one, in units of work. */
const argumentUnits = 100;

export type ErrorAt = (position: number, reason: string, suggestion?: string) => TsdbError;

export interface BindContext {
  readonly stepSeconds: number;
  readonly pipeline: (value: Pipeline) => Promise<Node>;
  readonly work: Work;
  readonly error: ErrorAt;
}

/**
 * By the names that the row's parameters have; those that were not given are missing.
 * @throws {TsdbError} BAD_REQUEST when there are too many, too few, or one is of a wrong type
 */
export async function bindCall(
  call: Call,
  called: ScriptFunction,
  { stepSeconds, pipeline, error, work }: BindContext,
): Promise<ReadonlyMap<string, readonly Node[]>> {
  const bound = new Map<string, Node[]>();
  const keywords = new Set<string>();
  for (const argument of call.arguments) {
    const parameter = parameterOf(argument, call, called, bound, error);
    const { keyword, value } = argument;
    if (keyword !== null && keywords.has(keyword)) {
      throw error(argument.start, `keyword ${JSON.stringify(keyword)} stands twice`);
    }
    if (keyword !== null) keywords.add(keyword);
    const others = bound.get(parameter.of) ?? [];
    if (others.length > 0 && !parameter.isMultiple) {
      throw error(argument.start, `${parameter.name} of ${call.name} is given twice`);
    }
    bound.set(parameter.of, others);
    if (value.kind === 'pipeline') others.push(await pipeline(value));
    else {
      const taken = nodeOf(parameter.type, value, stepSeconds);
      if (taken.kind === 'wrong') {
        const reason = `${parameter.name} of ${call.name} ${taken.reason}, not ${JSON.stringify(shownText(value.text))}`;
        throw error(value.start, reason, taken.suggestion);
      }
      others.push(taken.node);
    }
    if (work.spend(argumentUnits)) await work.pause();
  }
  const missing = called.parameters.find(({ of, isRequired }) => isRequired && !bound.has(of));
  if (missing === undefined) return bound;
  throw error(
    call.start,
    `${missing.name} of ${call.name} is missing`,
    `write "${usageOf({ ...called, name: call.name })}"`,
  );
}

/**
 * By its keyword; else a pipeline is the first that may be series, and all others come in their order. What is no boolean passes
 * over one that may be left out.
 */
function parameterOf(
  argument: Argument,
  call: Call,
  called: ScriptFunction,
  bound: ReadonlyMap<string, readonly Node[]>,
  error: ErrorAt,
): ScriptParameter {
  const { keyword, value } = argument;
  const usage = `write "${usageOf({ ...called, name: call.name })}"`;
  const isOpen = ({ of, isMultiple }: ScriptParameter) => isMultiple || !bound.has(of);
  if (keyword !== null) {
    const found = called.parameters.find(({ name }) => name === keyword);
    if (found === undefined) {
      const names = called.parameters.map(({ name }) => name);
      const reason = `no argument of ${call.name} has the name ${JSON.stringify(shownText(keyword))}`;
      throw error(argument.start, reason, nameSuggestion(keyword, names) || usage);
    }
    if (value.kind !== 'pipeline' || mayBeSeries(found)) return found;
    throw error(value.start, `${found.name} of ${call.name} takes no pipeline`, usage);
  }
  if (value.kind === 'pipeline') {
    const found = called.parameters.find((each) => mayBeSeries(each) && isOpen(each));
    if (found !== undefined) return found;
    const isOne = called.parameters.some(mayBeSeries);
    throw error(
      value.start,
      `${call.name} takes ${isOne ? 'one pipeline alone' : 'no pipeline'} as an argument`,
      usage,
    );
  }
  const found = called.parameters.find(
    (each) =>
      isOpen(each) &&
      (each.type !== 'series' || value.kind === 'number' || each.isRequired) &&
      (each.type !== 'boolean' || value.kind === 'boolean' || each === called.parameters.at(-1)),
  );
  if (found !== undefined) return found;
  const count = called.parameters.length;
  const most =
    count === 0
      ? 'no arguments'
      : count === 1
        ? 'one argument at most'
        : `${count} arguments at most`;
  throw error(argument.start, `${call.name} takes ${most}`, usage);
}

function mayBeSeries({ type }: ScriptParameter): boolean {
  return type === 'series' || type === 'tagOrSeries';
}
