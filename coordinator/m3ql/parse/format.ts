/** Scripts as text in one form: a macro a line, one space where one belongs, no comments. */
import type { Argument, Expression, Pipeline, Script, Value } from './tree.ts';

/** The text parses to a tree that is the same but for where its nodes stand. */
export function formatScript({ macros, pipeline }: Script): string {
  const lines = macros.map((macro) => `${macro.name} = ${pipelineText(macro.pipeline)};\n`);
  return lines.join('') + pipelineText(pipeline);
}

function pipelineText({ expressions }: Pipeline): string {
  return expressions.map(expressionText).join(' | ');
}

function expressionText(expression: Expression): string {
  if (expression.kind === 'pipeline') return `(${pipelineText(expression)})`;
  return [expression.name, ...expression.arguments.map(argumentText)].join(' ');
}

function argumentText({ keyword, value }: Argument): string {
  return keyword === null ? valueText(value) : `${keyword}:${valueText(value)}`;
}

function valueText(value: Value): string {
  switch (value.kind) {
    case 'boolean':
    case 'number':
    case 'pattern':
      return value.text;
    case 'string':
      return `"${value.text}"`;
    case 'pipeline':
      return `(${pipelineText(value)})`;
    default:
      return value satisfies never;
  }
}
