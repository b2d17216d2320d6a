/** Trees of scripts that a seed decides, texts that mean them, and damages, for campaigns. */
import type { Pick } from '#test/sim/mutate.ts';
import type { Argument, Expression, Macro, Pipeline, Script, Value } from './tree.ts';

export const some = <T>(pick: Pick, of: readonly T[]): T => of[pick(of.length)]!;

const nowhere = { start: 0, end: 0 };
const words = [
  'foo',
  'a.b*',
  '{x,y}',
  '[0-9]',
  '1h',
  '-5.',
  '5x',
  'a-b',
  '$',
  '^',
  '/',
  '\\',
  '1.2.3',
];
const numbers = ['0', '-5', '.5', '1.10', '007', '-0', '9'.repeat(320)];
const strings = ['', 'a', 'b c', '|;)', '#', '\n', 'é\u{1f600}', "'\\", '1h', 'true'];
const macroNames = ['m', 'n', 'my.macro', 'x-1'];

/** Which names calls and their keywords have. */
export interface ScriptNames {
  readonly calls: readonly string[];
  readonly keywords: readonly string[];
  /** Each call has fewer. */
  readonly argumentsEnd: number;
}

export function scriptOf(pick: Pick, names: ScriptNames): Script {
  const withMacros = { ...names, calls: [...names.calls, ...macroNames] };
  const macros = Array.from(
    { length: pick(3) === 0 ? pick(3) : 0 },
    (): Macro => ({
      kind: 'macro',
      ...nowhere,
      name: some(pick, macroNames),
      pipeline: pipelineOf(pick, withMacros, 2),
    }),
  );
  const pipeline = pipelineOf(pick, macros.length > 0 ? withMacros : names, 3);
  return { kind: 'script', ...nowhere, macros, pipeline };
}

function pipelineOf(pick: Pick, names: ScriptNames, depth: number): Pipeline {
  const expressions = Array.from({ length: 1 + pick(4) }, (): Expression => {
    if (depth > 0 && pick(8) === 0) return pipelineOf(pick, names, depth - 1);
    const args = Array.from({ length: pick(names.argumentsEnd) }, () =>
      argumentOf(pick, names, depth),
    );
    return { kind: 'call', ...nowhere, name: some(pick, names.calls), arguments: args };
  });
  return { kind: 'pipeline', ...nowhere, expressions };
}

function argumentOf(pick: Pick, names: ScriptNames, depth: number): Argument {
  const keyword = pick(3) === 0 ? some(pick, names.keywords) : null;
  return { kind: 'argument', ...nowhere, keyword, value: valueOf(pick, names, depth) };
}

function valueOf(pick: Pick, names: ScriptNames, depth: number): Value {
  switch (pick(depth > 0 ? 6 : 5)) {
    case 0: {
      const text = some(pick, ['true', 'False', 'TRUE']);
      return { kind: 'boolean', ...nowhere, value: text !== 'False', text };
    }
    case 1:
    case 2: {
      const text = some(pick, numbers);
      return { kind: 'number', ...nowhere, value: Number(text), text };
    }
    case 3:
      return { kind: 'string', ...nowhere, text: some(pick, strings) };
    case 4:
      return { kind: 'pattern', ...nowhere, text: some(pick, words) };
    default:
      return pipelineOf(pick, names, depth - 1);
  }
}

/** With any spaces, and comments, where they may stand. */
export function spacedText(pick: Pick, script: Script): string {
  const gap = (least: string): string =>
    pick(5) > 0 ? least : some(pick, [' ', '\t', '\n', '\r\n ', ' # a "b" | c;\n', '#é\r']);
  const pipeline = ({ expressions }: Pipeline): string =>
    expressions.map(expression).join(`${gap('')}|${gap('')}`);
  const nested = (of: Pipeline): string => `(${gap('')}${pipeline(of)}${gap('')})`;
  const expression = (of: Expression): string => {
    if (of.kind === 'pipeline') return nested(of);
    return of.name + of.arguments.map((each) => gap(' ') + argument(each)).join('');
  };
  const argument = ({ keyword, value }: Argument): string =>
    keyword === null ? valueText(value) : `${keyword}${gap('')}:${gap('')}${valueText(value)}`;
  const valueText = (value: Value): string => {
    if (value.kind === 'pipeline') return nested(value);
    return value.kind === 'string' ? `"${value.text}"` : value.text;
  };
  const macros = script.macros.map(
    (macro) => `${gap('')}${macro.name}${gap('')}=${gap('')}${pipeline(macro.pipeline)}${gap('')};`,
  );
  return macros.join(gap('\n')) + gap(' ') + pipeline(script.pipeline) + gap('');
}

const pieces = [
  '|',
  ';',
  ':',
  '=',
  '<',
  '>=',
  '(',
  ')',
  '"',
  '#',
  '\n',
  ' ',
  'a',
  '1',
  '.',
  '\\',
  '\x00',
  '\u{1f600}',
  '\ud800',
  '{',
  '',
];

export function damagedScript(pick: Pick, text: string): string {
  let result = text;
  for (let count = 1 + pick(4); count > 0; count -= 1) {
    const at = pick(result.length + 1);
    result = result.slice(0, at) + some(pick, pieces) + result.slice(at + pick(3));
  }
  return result;
}
