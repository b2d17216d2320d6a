/** What trees of queries mean, in brackets, for tests. */
import { formatNumber } from '#engine/window_functions/number_format.ts';
import type { AtModifier, Expr, VectorMatching, VectorSelector } from './ast.ts';
import type { Duration } from './durations.ts';

/** The tree in brackets, without those that the text has. */
export function shapeOf(expr: Expr): string {
  switch (expr.kind) {
    case 'number':
      return String(expr.value);
    case 'string':
      return JSON.stringify(expr.value);
    case 'vectorSelector':
      return selectorShape(expr) + modifierShape(expr);
    case 'matrixSelector':
      return `${selectorShape(expr.selector)}[${durationShape(expr.range)}]${modifierShape(expr.selector)}`;
    case 'subquery':
      return `${shapeOf(expr.expr)}[${durationShape(expr.range)}:${durationShape(expr.step)}]${modifierShape(expr)}`;
    case 'call':
      return `${expr.name}(${expr.args.map(shapeOf).join()})`;
    case 'aggregate': {
      const args = [...(expr.parameter === null ? [] : [expr.parameter]), expr.expr];
      const { without, labels: of } = expr.grouping;
      return `${expr.operator}[${without ? 'without' : ''}${of.join()}](${args.map(shapeOf).join()})`;
    }
    case 'binary': {
      const words = `${expr.operator}${expr.returnBool ? ' bool' : ''}${matchingShape(expr.matching)}`;
      return `(${shapeOf(expr.left)} ${words} ${shapeOf(expr.right)})`;
    }
    case 'unary':
      // The usual form has one before each infinity, as Prometheus' has: it says nothing.
      return expr.operator === '-' ? `(-${shapeOf(expr.expr)})` : shapeOf(expr.expr);
    case 'paren':
      return shapeOf(expr.expr);
  }
}

function selectorShape({ matchers, extension }: VectorSelector): string {
  const all = matchers.map(({ name, kind, value }) => `${name}${kind}${value}`).sort();
  return `{${all.join()}${extension ?? ''}}`;
}

function modifierShape({ at, offset }: { at: AtModifier | null; offset: Duration }): string {
  const time = at === null ? '' : `@${at.kind === 'time' ? at.millis : at.kind}`;
  return time + (offset === 0 ? '' : `offset${durationShape(offset)}`);
}

/** A number has no more digits than it is printed with. */
function durationShape(duration: Duration): string {
  if (typeof duration === 'number') return String(duration);
  return JSON.stringify(duration, (key, value: unknown) => {
    if (key === 'span' || key === 'hasUnits') return undefined;
    return typeof value === 'number' ? formatNumber(value) : value;
  });
}

function matchingShape(matching: VectorMatching | null): string {
  if (matching === null) return '';
  const { on, labels: of, cardinality, include, fillLeft, fillRight } = matching;
  const group = { 'many-to-one': 'group_left', 'one-to-many': 'group_right' }[
    cardinality as string
  ];
  const isTold = on || of.length > 0 || group !== undefined;
  const head = isTold ? ` ${on ? 'on' : 'ignoring'}(${of.join()})` : '';
  const fill = fillLeft === null && fillRight === null ? '' : ` ${fillLeft} ${fillRight}`;
  return `${head}${group === undefined ? '' : `${group}(${include.join()})`}${fill}`;
}
