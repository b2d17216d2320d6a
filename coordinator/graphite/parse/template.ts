/** `template(...)`: variables in the paths of a target. */
import { fillIn } from '../words/fill_in.ts';
import type { Node } from './tree.ts';

export type TemplateValues = ReadonlyMap<string, string | number>;

const numeric = /^-?\d+(?:\.\d*)?$/;

/**
 * The tree with `$name` in its paths replaced; a path that is nothing else becomes a literal.
 * @throws {TsdbError} BAD_REQUEST when a path becomes too long
 */
export function fillTemplate(node: Node, values: TemplateValues): Node {
  switch (node.kind) {
    case 'path':
      return fillPath(node.path, values);
    case 'call':
      return {
        ...node,
        positional: node.positional.map((argument) => fillTemplate(argument, values)),
        named: node.named.map(({ name, value }) => ({ name, value: fillTemplate(value, values) })),
      };
    case 'number':
    case 'string':
    case 'boolean':
    case 'none':
    case 'select':
      return node;
    default:
      return node satisfies never;
  }
}

function fillPath(path: string, values: TemplateValues): Node {
  let filled = path;
  for (const [name, value] of values) {
    if (path === `$${name}`) {
      const text = `${value}`;
      if (!numeric.test(text)) return { kind: 'string', value: text };
      return { kind: 'number', value: Number(text), isInteger: !text.includes('.') };
    }
    filled = fillIn(filled, `$${name}`, `${value}`);
  }
  return { kind: 'path', path: filled };
}
