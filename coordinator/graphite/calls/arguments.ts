/** The arguments of one call, by the names of its function's parameters. */
import { assert } from '#lib/assert.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import type { TsdbError } from '#lib/errors.ts';
import type { Node } from '../parse/tree.ts';
import type { NodeOrTag } from '../series/nodes.ts';
import type { Series } from '../series/series.ts';
import { intervalSeconds } from '../time/interval.ts';
import type { Literal, Parameter } from './parameters.ts';

/** An expression that is evaluated when it is asked for, or series that another function has. */
export type SeriesSource =
  | { readonly kind: 'expression'; readonly node: Node }
  | { readonly kind: 'series'; readonly list: readonly Series[] };

export type Argument = { readonly kind: 'literal'; readonly value: Literal } | SeriesSource;

export class Arguments {
  /** Of the function, as it was called. */
  readonly functionName: string;
  readonly #values: ReadonlyMap<string, readonly Argument[]>;
  readonly #parameters: readonly Parameter[];

  constructor(
    functionName: string,
    parameters: readonly Parameter[],
    values: ReadonlyMap<string, readonly Argument[]>,
  ) {
    this.functionName = functionName;
    this.#parameters = parameters;
    this.#values = values;
  }

  /** Form: "cannot evaluate scale: factor is not a number: ten". */
  error(parameter: string, reason: string, value: Literal): TsdbError {
    return argumentError(this.functionName, parameter, reason, value);
  }

  /** Whether it was given, and is not None. */
  has(name: string): boolean {
    const [first] = this.#values.get(name) ?? [];
    return first !== undefined && !(first.kind === 'literal' && first.value === null);
  }

  sources(name: string): readonly SeriesSource[] {
    return (this.#values.get(name) ?? []).flatMap((each) =>
      each.kind === 'literal' ? [] : [each],
    );
  }

  /** The value, or the parameter's default. */
  literal(name: string): Literal {
    const [first] = this.#values.get(name) ?? [];
    if (first?.kind === 'literal' && first.value !== null) return first.value;
    return this.#parameters.find((parameter) => parameter.name === name)?.default ?? null;
  }

  number(name: string): number {
    const value = this.optionalNumber(name);
    assert(value !== null, 'a required number is there');
    return value;
  }

  optionalNumber(name: string): number | null {
    const value = this.literal(name);
    return value === null ? null : Number(value);
  }

  text(name: string): string {
    return this.optionalText(name) ?? '';
  }

  optionalText(name: string): string | null {
    const value = this.literal(name);
    return value === null ? null : `${value}`;
  }

  flag(name: string): boolean {
    const value = this.literal(name);
    return typeof value === 'string' ? value.toLowerCase() === 'true' : Boolean(value);
  }

  /** Seconds of an interval. */
  interval(name: string): number {
    return intervalSeconds(this.text(name))!;
  }

  nodes(name: string): readonly NodeOrTag[] {
    return this.#literals(name).map((value) => (typeof value === 'number' ? value : `${value}`));
  }

  numbers(name: string): readonly number[] {
    return this.#literals(name).map(Number);
  }

  texts(name: string): readonly string[] {
    return this.#literals(name).map((value) => `${value}`);
  }

  #literals(name: string): readonly Literal[] {
    return (this.#values.get(name) ?? []).flatMap((each) =>
      each.kind === 'literal' && each.value !== null ? [each.value] : [],
    );
  }
}

export function argumentError(
  functionName: string,
  parameter: string,
  reason: string,
  value: Literal,
): TsdbError {
  return badRequest(`cannot evaluate ${functionName}: ${parameter} ${reason}: ${shown(value)}`);
}

function shown(value: Literal): string {
  return value === null ? 'None' : shownText(`${value}`);
}
