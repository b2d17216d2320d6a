/**
 * The syntax tree of a query as Prometheus' `parse_query` answers it, for editors and views of trees. Members stand in its
 * order, which is that of the alphabet.
 */
import type { Turning } from '#engine/aside/aside.ts';
import { formatNumber } from '#engine/window_functions/number_format.ts';
import type { Work } from '#lib/turns/turns.ts';
import type { Matcher } from '../../select/storage.ts';
import { functions } from '../functions/table.ts';
import {
  type AtModifier,
  type Binary,
  type Call,
  type Expr,
  typeOf,
  type VectorSelector,
} from './ast.ts';
import type { Duration, DurationExpr } from './durations.ts';
import type { PromqlFeatures } from './features.ts';
import { parseQuery } from './parser.ts';

/** About what it takes to write a node, in units of work (lib/turns/turns.ts). */
const nodeUnits = 1000;

/**
 * JSON of the tree.
 * @throws as `parseQuery`
 */
export async function treeJson(
  query: string,
  features: PromqlFeatures,
  turning: Turning,
): Promise<string> {
  const expr = await parseQuery(query, features, turning);
  return new TreeWriter(turning.work).of(expr);
}

class TreeWriter {
  readonly #work: Work;

  constructor(work: Work) {
    this.#work = work;
  }

  async of(expr: Expr | null): Promise<string> {
    if (expr === null) return 'null';
    if (this.#work.spend(nodeUnits)) await this.#work.pause();
    switch (expr.kind) {
      case 'number':
        return `{"type":"numberLiteral","val":"${formatNumber(expr.value)}"}`;
      case 'string':
        return `{"type":"stringLiteral","val":${text(expr.value)}}`;
      case 'paren':
        return `{"expr":${await this.of(expr.expr)},"type":"parenExpr"}`;
      case 'unary':
        return `{"expr":${await this.of(expr.expr)},"op":"${expr.operator}","type":"unaryExpr"}`;
      case 'vectorSelector':
        return `{${selectorMembers(expr)},"type":"vectorSelector"}`;
      case 'matrixSelector':
        return `{${selectorMembers(expr.selector)},${spanMembers('range', expr.range)},"type":"matrixSelector"}`;
      case 'subquery': {
        const inner = await this.of(expr.expr);
        const { range, step, offset, at } = expr;
        return `{"expr":${inner},${spanMembers('offset', offset)},${spanMembers('range', range)},${atMember(at)},${spanMembers('step', step)},${timestampMember(at)},"type":"subquery"}`;
      }
      case 'aggregate': {
        const { operator, grouping, parameter } = expr;
        const inner = await this.of(expr.expr);
        return `{"expr":${inner},"grouping":${list(grouping.labels)},"op":"${operator}","param":${await this.of(parameter)},"type":"aggregation","without":${grouping.without}}`;
      }
      case 'binary': {
        const { operator, returnBool } = expr;
        const left = await this.of(expr.left);
        const right = await this.of(expr.right);
        return `{"bool":${returnBool},"lhs":${left},"matching":${matching(expr)},"op":"${operator}","rhs":${right},"type":"binaryExpr"}`;
      }
      case 'call': {
        const args: string[] = [];
        for (const argument of expr.args) args.push(await this.of(argument));
        return `{"args":[${args.join(',')}],"func":${functionOf(expr)},"type":"call"}`;
      }
    }
  }
}

/** A half of a surrogate pair stands for a byte that is no UTF-8. */
function text(value: string): string {
  return JSON.stringify(value.toWellFormed());
}

function list(labels: readonly string[]): string {
  return `[${labels.map(text).join(',')}]`;
}

function functionOf({ name }: Call): string {
  const { args, optional, most, result } = functions.get(name)!;
  const variadic = most === null ? optional : most - args.length + 1;
  return `{"argTypes":${list(args)},"name":"${name}","returnType":"${result}","variadic":${variadic}}`;
}

function matching({ left, right, matching: of }: Binary): string {
  if (of === null || typeOf(left) !== 'vector' || typeOf(right) !== 'vector') return 'null';
  const { cardinality, fillLeft, fillRight, include, labels, on } = of;
  return `{"card":"${cardinality}","fillValues":{"lhs":${fillLeft},"rhs":${fillRight}},"include":${list(include)},"labels":${list(labels)},"on":${on}}`;
}

/** Those of the alphabet's first half, so that what a range adds to them follows. */
function selectorMembers(selector: VectorSelector): string {
  const { matchers, isNamed, extension, offset, at } = selector;
  const name = isNamed ? matchers[0]!.value : '';
  // A name in front of the braces is the last one of the matchers.
  const inOrder = isNamed ? [...matchers.slice(1), matchers[0]!] : matchers;
  return [
    `"anchored":${extension === 'anchored'}`,
    `"matchers":[${inOrder.map(matcherOf).join(',')}]`,
    `"name":${text(name)}`,
    spanMembers('offset', offset),
    `"smoothed":${extension === 'smoothed'}`,
    atMember(at),
    timestampMember(at),
  ].join(',');
}

function matcherOf({ name, kind, value }: Matcher): string {
  return `{"name":${text(name)},"type":"${kind}","value":${text(value)}}`;
}

function atMember(at: AtModifier | null): string {
  return `"startOrEnd":${at === null || at.kind === 'time' ? 'null' : `"${at.kind}"`}`;
}

function timestampMember(at: AtModifier | null): string {
  return `"timestamp":${at?.kind === 'time' ? at.millis : 'null'}`;
}

/** Milliseconds, and what they are computed from: 0 where only the run of a query can tell. */
function spanMembers(name: string, duration: Duration): string {
  if (typeof duration === 'number') return `"${name}":${duration},"${name}Expr":null`;
  return `"${name}":0,"${name}Expr":${durationOf(duration, false)}`;
}

function durationOf(expr: DurationExpr, isWrapped: boolean): string {
  switch (expr.kind) {
    case 'number': {
      const literal = `{"duration":${expr.hasUnits},"type":"numberLiteral","val":"${formatNumber(expr.value)}"}`;
      // Only operations have brackets of their own.
      if (!isWrapped) return literal;
      return `{"lhs":null,"op":"+","rhs":${literal},"type":"durationExpr","wrapped":true}`;
    }
    case 'paren':
      return durationOf(expr.of, true);
    case 'step':
    case 'range':
      return operationOf(expr.kind, null, null, isWrapped);
    case 'negative':
      return operationOf('-', null, expr.of, isWrapped);
    case 'extreme':
      return operationOf(expr.name, expr.left, expr.right, isWrapped);
    case 'binary':
      return operationOf(expr.operator, expr.left, expr.right, isWrapped);
  }
}

function operationOf(
  operator: string,
  left: DurationExpr | null,
  right: DurationExpr | null,
  isWrapped: boolean,
): string {
  const side = (expr: DurationExpr | null): string =>
    expr === null ? 'null' : durationOf(expr, false);
  return `{"lhs":${side(left)},"op":"${operator}","rhs":${side(right)},"type":"durationExpr","wrapped":${isWrapped}}`;
}
