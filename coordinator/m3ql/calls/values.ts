/** Values of scripts as what a parameter takes, or why they are none. */
import { reducerNamed, reducerNames } from '../../graphite/math/reducers.ts';
import type { Node } from '../../graphite/parse/tree.ts';
import { intervalSeconds } from '../../graphite/time/interval.ts';
import { nameSuggestion } from '../parse/suggestion.ts';
import type { StringValue, WordValue } from '../parse/tree.ts';
import { tagKey } from '../series/tags.ts';
import { parseGlob } from '../storage/globs.ts';
import type { ScriptType } from './parameters.ts';

export type Taken =
  | { readonly kind: 'node'; readonly node: Node }
  | { readonly kind: 'wrong'; readonly reason: string; readonly suggestion: string };

/** @param stepSeconds of the request: intervals of `steps` and `window` become whole steps, those that begin counted as whole */
export function nodeOf(
  type: ScriptType,
  value: WordValue | StringValue,
  stepSeconds: number,
): Taken {
  switch (type) {
    case 'aggregation':
      if (reducerNamed(value.text) !== undefined) return text(value.text);
      return wrong('has to name an aggregation', nameSuggestion(value.text, reducerNames));
    case 'boolean':
      if (value.kind === 'boolean') return taken({ kind: 'boolean', value: value.value });
      return wrong('has to be true or false');
    case 'count':
      return isWhole(value) ? number(value.value, true) : wrong('has to be a whole number');
    case 'limit':
      if (/^inf(?:inity)?$/i.test(value.text)) return text(value.text);
      return isWhole(value) ? number(value.value, true) : wrong('has to be a whole number or inf');
    case 'glob': {
      const glob = parseGlob(value.text);
      return glob.kind === 'wrong' ? wrong(glob.reason) : text(value.text);
    }
    case 'interval':
      return aboveZero(intervalNode(value, 1));
    case 'steps':
      return aboveZero(intervalNode(value, stepSeconds));
    case 'window':
      if (isWhole(value) && value.value > 0) return number(value.value, true);
      if (value.kind === 'number') return wrong('has to be a number of rows above 0');
      return aboveZero(intervalNode(value, stepSeconds));
    case 'number':
      if (value.kind === 'number') return number(value.value, false);
      return wrong('has to be a number', exponentHint(value.text));
    case 'percentile':
      if (value.kind === 'number' && value.value > 0 && value.value <= 100) {
        return number(value.value, false);
      }
      return wrong('has to be a number above 0, at most 100');
    case 'shift':
      return signed(intervalNode(value, 1), value.text.startsWith('+') ? '+' : '-');
    case 'series':
      if (value.kind === 'number') return lineAt(value.value, stepSeconds);
      return wrong('has to be a pipeline in parentheses, or a number');
    case 'tagOrSeries':
      if (value.kind === 'number') return lineAt(value.value, stepSeconds);
      return tagNode(value);
    case 'tag':
      return tagNode(value);
    case 'text':
      return text(value.text);
    default:
      return type satisfies never;
  }
}

function taken(node: Node): Taken {
  return { kind: 'node', node };
}

function wrong(reason: string, suggestion = ''): Taken {
  return { kind: 'wrong', reason, suggestion };
}

function text(value: string): Taken {
  return taken({ kind: 'string', value });
}

function number(value: number, isInteger: boolean): Taken {
  return taken({ kind: 'number', value, isInteger });
}

function isWhole(value: WordValue | StringValue): value is WordValue & { readonly kind: 'number' } {
  return value.kind === 'number' && !value.text.includes('.') && Number.isSafeInteger(value.value);
}

/** A number in the place of series. */
function lineAt(value: number, stepSeconds: number): Taken {
  const step: Node = { kind: 'number', value: stepSeconds, isInteger: true };
  const line: Node = { kind: 'number', value, isInteger: false };
  return taken({
    kind: 'call',
    name: 'constantLine',
    text: `constantLine ${value}`,
    positional: [line, step],
    named: [],
  });
}

function tagNode(value: WordValue | StringValue): Taken {
  const isName =
    value.kind === 'string' || (value.kind !== 'number' && !/[*?[\]{},^$]/.test(value.text));
  return isName && value.text !== ''
    ? text(tagKey(value.text))
    : wrong('has to be the name of a tag');
}

function exponentHint(written: string): string {
  return /^-?[0-9.]+e-?[0-9]+$/i.test(written)
    ? `write ${Number(written)}: numbers have no exponent`
    : '';
}

function signed(interval: Taken, sign: '+' | '-'): Taken {
  if (interval.kind === 'wrong' || interval.node.kind !== 'string') return interval;
  return text(sign + interval.node.value.replace('-', ''));
}

const aboveZeroReason = 'has to be an interval above 0';

function aboveZero(interval: Taken): Taken {
  if (interval.kind === 'wrong' || interval.node.kind !== 'string') return interval;
  return interval.node.value.startsWith('-') ? wrong(aboveZeroReason) : interval;
}

/** Minutes are also `m` alone, which Graphite does not know. */
function intervalNode(
  { text: written, kind }: WordValue | StringValue,
  stepSeconds: number,
): Taken {
  const seconds = /\d/.test(written)
    ? intervalSeconds(written.replace(/(?<=\d)m(?![A-Za-z])/g, 'min'))
    : null;
  if (seconds === null) {
    return wrong(
      'has to be an interval such as 5m or 1h',
      kind === 'number' ? `write "${written}s" or "${written}m"` : '',
    );
  }
  if (seconds === 0) return wrong(aboveZeroReason);
  const steps = Math.ceil(Math.abs(seconds) / stepSeconds);
  return text(`${seconds < 0 ? '-' : ''}${steps * stepSeconds}s`);
}
