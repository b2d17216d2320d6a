/**
 * Scripts become trees that Graphite's evaluation takes: each function is a call whose first argument is what comes through
 * the pipe. Names and arguments are looked up here, so that what is wrong is said with its place before anything is read.
 */
import { shownText, type TsdbError } from '#lib/errors.ts';
import type { Work } from '#lib/turns/turns.ts';
import type { ScriptFunction } from '../calls/parameters.ts';
import { refusedNames, scriptFunctions } from '../functions/table.ts';
import type { Tree } from '../../graphite/evaluate/context.ts';
import type { Node } from '../../graphite/parse/tree.ts';
import { scriptError } from '../parse/scanner.ts';
import { nameSuggestion } from '../parse/suggestion.ts';
import type { Call, Expression, Macro, Pipeline, Script } from '../parse/tree.ts';
import { bindCall } from './arguments.ts';
import { fetchName, fetchNode } from './fetch.ts';

/** Calls of a script and their arguments, those of a macro wherever its name stands. */
const partsMax = 2_000;
/** Of one, in units of work. */
const callUnits = 200;

/**
 * @param text of the script, for messages
 * @param stepSeconds of the request
 * @throws {TsdbError} BAD_REQUEST with line, column, the reason and what was likely meant; the reason of the work's signal
 */
export async function compileScript(
  script: Script,
  text: string,
  stepSeconds: number,
  work: Work,
): Promise<Tree> {
  return await new Compiler(text, stepSeconds, work).compile(script);
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
  readonly #work: Work;
  readonly #macros = new Map<string, Known>();
  readonly #macroNames: string[] = [];
  readonly #shared = new Set<Node>();
  #parts = 0;

  constructor(text: string, stepSeconds: number, work: Work) {
    this.#text = text;
    this.#stepSeconds = stepSeconds;
    this.#work = work;
  }

  async compile({ macros, pipeline }: Script): Promise<Tree> {
    for (const { name } of macros) this.#macroNames.push(name);
    for (const macro of macros) await this.#define(macro);
    return { root: await this.#pipeline(pipeline, null), shared: this.#shared };
  }

  #error(position: number, reason: string, suggestion = ''): TsdbError {
    return scriptError('evaluate', this.#text, position, reason, suggestion);
  }

  async #define(macro: Macro): Promise<void> {
    const { name, pipeline, start } = macro;
    const shown = JSON.stringify(shownText(name));
    if (this.#macros.has(name)) throw this.#error(start, `macro ${shown} is defined twice`);
    if (name === fetchName || scriptFunctions.has(name) || refusedNames.has(name)) {
      throw this.#error(start, `macro ${shown} has the name of a function`);
    }
    const takes = this.#takesSeries(pipeline);
    const node = await this.#pipeline(pipeline, takes ? anySeries : null);
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
  async #pipeline({ expressions }: Pipeline, input: Node | null): Promise<Node> {
    let node = input;
    for (const expression of expressions) {
      node = await this.#expression(expression, node);
      if (this.#work.spend(callUnits)) await this.#work.pause();
    }
    return node!;
  }

  async #expression(expression: Expression, input: Node | null): Promise<Node> {
    if (expression.kind === 'pipeline') return await this.#pipeline(expression, input);
    this.#parts += 1 + expression.arguments.length;
    if (this.#parts > partsMax) {
      const reason = `more than ${partsMax} calls and arguments, with those of macros`;
      throw this.#error(expression.start, reason);
    }
    const { name } = expression;
    const macro = this.#macros.get(name);
    if (macro !== undefined) return await this.#macro(expression, macro, input);
    if (name === fetchName) {
      this.#checkBegin(expression, input);
      return fetchNode(expression, (...error) => this.#error(...error));
    }
    const called = scriptFunctions.get(name);
    if (called === undefined) throw this.#unknown(expression);
    return await this.#call(expression, called, input);
  }

  async #macro(call: Call, { macro, node }: Known, input: Node | null): Promise<Node> {
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
    return await this.#pipeline(macro.pipeline, input);
  }

  async #call(call: Call, called: ScriptFunction, input: Node | null): Promise<Node> {
    if (called.begins) this.#checkBegin(call, input);
    else if (input === null) throw this.#missingInput(call);
    const bound = await bindCall(call, called, {
      stepSeconds: this.#stepSeconds,
      work: this.#work,
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
  async #argument(pipeline: Pipeline, input: Node | null): Promise<Node> {
    if (input === null || !this.#takesSeries(pipeline)) return await this.#pipeline(pipeline, null);
    this.#shared.add(input);
    return await this.#pipeline(pipeline, input);
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
