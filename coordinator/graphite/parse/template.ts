/** `template(...)`: variables in the paths of a target. */
import { badRequest } from '#lib/errors.ts';
import { fillIn } from '../words/fill_in.ts';
import type { Node } from './tree.ts';

/** Variables of a template, and of a request. */
export const templateVariablesMax = 100;
/**
 * Steps that the templates of one target take, some milliseconds: nodes of their trees, once more for each template around them,
 * paths with variables times these, by their characters and by those that come of them.
 */
const fillStepsMax = 2_000_000;
/** Of a node, and of a variable that is looked for in a path. */
const nodeSteps = 20;
const variableSteps = 100;

export type TemplateValues = ReadonlyMap<string, string | number>;

const numeric = /^-?\d+(?:\.\d*)?$/;

/** Fills in the templates of one target, which together have a limit. */
export class TemplateFiller {
  #steps = 0;

  /**
   * The tree with `$name` in its paths replaced; a path that is nothing else becomes a literal.
   * @throws {TsdbError} BAD_REQUEST when a path becomes too long, or all of them take too long
   */
  fill(node: Node, values: TemplateValues): Node {
    this.#count(nodeSteps);
    switch (node.kind) {
      case 'path':
        return node.path.includes('$') ? this.#fillPath(node.path, values) : node;
      case 'call':
        return {
          ...node,
          positional: node.positional.map((argument) => this.fill(argument, values)),
          named: node.named.map(({ name, value }) => ({ name, value: this.fill(value, values) })),
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

  /** One variable after the other, as Graphite does: what a value brings may be the name of the next one. */
  #fillPath(path: string, values: TemplateValues): Node {
    const whole = values.get(path.slice(1));
    if (path.startsWith('$') && whole !== undefined) return literalOf(`${whole}`);
    let filled = path;
    for (const [name, value] of values) {
      this.#count(variableSteps + filled.length);
      filled = fillIn(filled, `$${name}`, `${value}`);
    }
    return { kind: 'path', path: filled };
  }

  #count(steps: number): void {
    this.#steps += steps;
    if (this.#steps <= fillStepsMax) return;
    throw badRequest(
      `cannot parse target: template takes more than ${fillStepsMax} steps, which are paths times variables: ${this.#steps}; use fewer variables, or fewer templates inside of each other`,
    );
  }
}

function literalOf(text: string): Node {
  if (!numeric.test(text)) return { kind: 'string', value: text };
  return { kind: 'number', value: Number(text), isInteger: !text.includes('.') };
}
