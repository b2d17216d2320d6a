/**
 * Scripts become trees that Graphite's evaluation takes: each function is a call whose first argument is what comes through
 * the pipe. Names and arguments are looked up here, so that what is wrong is said with its place before anything is read.
 */
import { shownText, type TsdbError } from '#lib/errors.ts';
import type { ScriptFunction } from '../calls/parameters.ts';
import { refusedNames, scriptFunctions } from '../functions/table.ts';
import type { Tree } from '../../graphite/evaluate/context.ts';
import type { Node } from '../../graphite/parse/tree.ts';
import { scriptError } from '../parse/scanner.ts';
import { nameSuggestion } from '../parse/suggestion.ts';
import type { Call, Expression, Macro, Pipeline, Script } from '../parse/tree.ts';
import { bindCall } from './arguments.ts';
import { fetchName, fetchNode } from './fetch.ts';

/** Calls of a script, those of a macro wherever its name stands. */
const callsMax = 20_000;
/** Macros that stand for others, inside of each other. */
const macroDepthMax = 100;

/**
 * @param text of the script, for messages
 * @param stepSeconds of the request
 * @throws {TsdbError} BAD_REQUEST with line, column, the reason and what was likely meant
 */
export function compileScript(script: Script, text: string, stepSeconds: number): Tree {
  return new Compiler(text, stepSeconds).compile(script);
}

/** A macro that was looked at. */
interface Known {
  readonly macro: Macro;
  /** Of one that begins a pipeline; null of one that takes series. */
  readonly node: Node | null;
}

/** What comes through the pipe into a macro while nobody has called it. */
const anySeries: Node = { kind: 'none' };

class Compiler {
  readonly #text: string;
  readonly #stepSeconds: number;
  readonly #macros = new Map<string, Known>();
  readonly #macroNames: string[] = [];
  readonly #shared = new Set<Node>();
  #calls = 0;
  #macroDepth = 0;

  constructor(text: string, stepSeconds: number) {
    this.#text = text;
    this.#stepSeconds = stepSeconds;
  }

  compile({ macros, pipeline }: Script): Tree {
    for (const { name } of macros) this.#macroNames.push(name);
    for (const macro of macros) this.#define(macro);
    return { root: this.#pipeline(pipeline, null), shared: this.#shared };
  }

  #error(position: number, reason: string, suggestion = ''): TsdbError {
    return scriptError('evaluate', this.#text, position, reason, suggestion);
  }

  #define(macro: Macro): void {
    const { name, pipeline, start } = macro;
    const shown = JSON.stringify(shownText(name));
    if (this.#macros.has(name)) throw this.#error(start, `macro ${shown} is defined twice`);
    if (name === fetchName || scriptFunctions.has(name) || refusedNames.has(name)) {
      throw this.#error(start, `macro ${shown} has the name of a function`);
    }
    const takes = this.#takesSeries(pipeline);
    const node = this.#pipeline(pipeline, takes ? anySeries : null);
    if (!takes) this.#shared.add(node);
    this.#macros.set(name, { macro, node: takes ? null : node });
  }

  /** Whether it goes on with series, instead of beginning with some. */
  #takesSeries({ expressions }: Pipeline): boolean {
    const [first] = expressions;
    if (first!.kind === 'pipeline') return this.#takesSeries(first!);
    const macro = this.#macros.get(first!.name);
    if (macro !== undefined) return macro.node === null;
    const called = scriptFunctions.get(first!.name);
    return called !== undefined && !called.begins;
  }

  /** @param input null where nothing comes before it */
  #pipeline({ expressions }: Pipeline, input: Node | null): Node {
    let node = input;
    for (const expression of expressions) node = this.#expression(expression, node);
    return node!;
  }

  #expression(expression: Expression, input: Node | null): Node {
    if (expression.kind === 'pipeline') return this.#pipeline(expression, input);
    this.#calls += 1;
    if (this.#calls > callsMax) {
      throw this.#error(expression.start, `more than ${callsMax} calls, with those of macros`);
    }
    const { name } = expression;
    const macro = this.#macros.get(name);
    if (macro !== undefined) return this.#macro(expression, macro, input);
    if (name === fetchName) {
      this.#checkBegin(expression, input);
      return fetchNode(expression, (...error) => this.#error(...error));
    }
    const called = scriptFunctions.get(name);
    if (called === undefined) throw this.#unknown(expression);
    return this.#call(expression, called, input);
  }

  #macro(call: Call, { macro, node }: Known, input: Node | null): Node {
    const shown = JSON.stringify(shownText(macro.name));
    const [first] = call.arguments;
    if (first !== undefined) {
      throw this.#error(first.start, `macro ${shown} takes no arguments`);
    }
    if (node !== null) {
      this.#checkBegin(call, input);
      return node;
    }
    if (input === null) throw this.#missingInput(call);
    if (this.#macroDepth === macroDepthMax) {
      throw this.#error(call.start, `more than ${macroDepthMax} macros inside of each other`);
    }
    this.#macroDepth += 1;
    const result = this.#pipeline(macro.pipeline, input);
    this.#macroDepth -= 1;
    return result;
  }

  #call(call: Call, called: ScriptFunction, input: Node | null): Node {
    if (called.begins) this.#checkBegin(call, input);
    else if (input === null) throw this.#missingInput(call);
    const bound = bindCall(call, called, {
      stepSeconds: this.#stepSeconds,
      pipeline: (value) => this.#argument(value, input),
      error: (...error) => this.#error(...error),
    });
    const positional = called.row.parameters.map((parameter, index): readonly Node[] => {
      if (!called.begins && index === 0) return [input!];
      if (called.begins && index === called.row.parameters.length - 1) {
        return [{ kind: 'number', value: this.#stepSeconds, isInteger: true }];
      }
      return bound.get(parameter.name) ?? [{ kind: 'none' }];
    });
    return {
      kind: 'call',
      name: call.name,
      text: call.name,
      positional: positional.flat(),
      named: [],
    };
  }

  /** One that begins with no series of its own goes on with those of the call. */
  #argument(pipeline: Pipeline, input: Node | null): Node {
    if (input === null || !this.#takesSeries(pipeline)) return this.#pipeline(pipeline, null);
    this.#shared.add(input);
    return this.#pipeline(pipeline, input);
  }

  #checkBegin({ name, start }: Call, input: Node | null): void {
    if (input === null) return;
    throw this.#error(
      start,
      `${JSON.stringify(shownText(name))} makes series and takes none`,
      'it begins a pipeline, in parentheses where it is an argument',
    );
  }

  #missingInput({ name, start }: Call): TsdbError {
    return this.#error(
      start,
      `${JSON.stringify(shownText(name))} takes series, and nothing comes before it`,
      'a pipeline begins with fetch, as in "fetch name:foo", constantLine or identity',
    );
  }

  #unknown({ name, start }: Call): TsdbError {
    const shown = JSON.stringify(shownText(name));
    const refused = refusedNames.get(name);
    if (refused !== undefined) return this.#error(start, `${shown} is not served: it ${refused}`);
    if (this.#macroNames.includes(name)) {
      return this.#error(
        start,
        `macro ${shown} is not defined before it is used`,
        'a macro may stand for those above it alone',
      );
    }
    const known = [fetchName, ...this.#macros.keys(), ...scriptFunctions.keys()];
    const suggestion = nameSuggestion(name, known);
    return this.#error(start, `no function or macro has the name ${shown}`, suggestion);
  }
}
