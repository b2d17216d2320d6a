/**
 * Targets of Graphite's query language are evaluated: parsed, all that they read asked for at once, then
 * one function after the other, the innermost first.
 */
import { badRequest } from '#lib/errors.ts';
import { ownTurn, type Work } from '#lib/turns/turns.ts';
import { Arguments, type SeriesSource } from '../calls/arguments.ts';
import { Call, type Host, plainList, type TargetState } from '../calls/call.ts';
import type { Result, Window } from '../calls/window.ts';
import { functions } from '../functions/table.ts';
import { parseTarget } from '../parse/parser.ts';
import type { Node } from '../parse/tree.ts';
import { madeRowsMax } from '../series/making.ts';
import type { Series } from '../series/series.ts';
import type { TimeContext } from '../time/attime.ts';
import type { EvaluationContext, FetchRequest, Language, Tree } from './context.ts';
import { Fetches } from './fetches.ts';
import { Planner } from './plan.ts';
import { charactersOfResult, rowsOfNames, rowsOfResult, SharedResults } from './shared_results.ts';

/** Calls that are evaluated for one request, with those that a function evaluates again elsewhere. */
const callsMax = 100_000;
/** A longer target takes some milliseconds to parse. */
const ownTurnLength = 8_192;
/** Targets that functions make of names, inside of each other. */
const madeTargetsDepthMax = 10;

/**
 * @returns the series of each target, in the order of the targets
 * @throws {TsdbError} BAD_REQUEST that names the function, the argument, the reason and the value; what
 *   storage throws; the reason of the work's signal
 */
export async function evaluate(
  targets: readonly string[],
  context: EvaluationContext,
): Promise<readonly (readonly Series[])[]> {
  const evaluator = new Evaluator(context, { functions, areTagsFixed: false }, new Set());
  return await evaluator.evaluateTargets(targets);
}

/**
 * The series of a tree that another language has made of its own text.
 * @throws as `evaluate`
 */
export async function evaluateTree(
  { root, shared }: Tree,
  language: Language,
  context: EvaluationContext,
): Promise<readonly Series[]> {
  const [list] = await new Evaluator(context, language, shared).evaluateNodes([root]);
  return list!;
}

class Evaluator implements Host {
  readonly #context: EvaluationContext;
  readonly #language: Language;
  readonly #planner: Planner;
  readonly #fetches: Fetches;
  readonly state: TargetState = { xFilesFactor: null, stacks: new Map() };
  readonly #results: SharedResults;
  /** Rows of results that a call which goes on still needs. */
  #heldRows = 0;
  /** Rows that calls which go on make. */
  #reservedRows = 0;
  /** Rows that stay to the end. */
  #keptRows = 0;
  /** Rows of all that memory was taken for. */
  #takenRows = 0;
  #calls = 0;
  #madeTargetsDepth = 0;

  constructor(context: EvaluationContext, language: Language, shared: ReadonlySet<Node>) {
    this.#context = context;
    this.#language = language;
    this.#results = new SharedResults(shared, context.limits.rowsMax);
    this.#planner = new Planner(context.time, context.work, language.functions);
    this.#fetches = new Fetches(context);
  }

  get work(): Work {
    return this.#context.work;
  }

  get time(): TimeContext {
    return this.#context.time;
  }

  get random(): () => number {
    return this.#context.random;
  }

  async evaluateTargets(targets: readonly string[]): Promise<readonly (readonly Series[])[]> {
    return await this.evaluateNodes(await this.#parse(targets));
  }

  async evaluateNodes(nodes: readonly Node[]): Promise<readonly (readonly Series[])[]> {
    const { fromSeconds, untilSeconds } = this.#context;
    const window = { fromSeconds, untilSeconds };
    await this.#fetches.ensure(await this.#planner.requests(nodes, window));
    const lists: (readonly Series[])[] = [];
    for (const node of nodes) {
      this.state.xFilesFactor = this.#context.xFilesFactor ?? null;
      lists.push(plainList(await this.#evaluate(node, window), 'target'));
    }
    return lists;
  }

  async evaluate(source: SeriesSource, window: Window): Promise<Result> {
    if (source.kind === 'series') return source.list;
    await this.#fetches.ensure(await this.#planner.requests([source.node], window));
    return await this.#evaluate(source.node, window);
  }

  async evaluateTexts(
    texts: readonly string[],
    window: Window,
  ): Promise<readonly (readonly Series[])[]> {
    this.#madeTargetsDepth += 1;
    if (this.#madeTargetsDepth > madeTargetsDepthMax) {
      throw badRequest(
        `cannot evaluate target: functions make targets more than ${madeTargetsDepthMax} times inside of each other`,
      );
    }
    const nodes = await this.#parse(texts);
    await this.#fetches.ensure(await this.#planner.requests(nodes, window));
    const lists: (readonly Series[])[] = [];
    for (const node of nodes) {
      lists.push(plainList(await this.#evaluate(node, window), 'target'));
    }
    this.#madeTargetsDepth -= 1;
    return lists;
  }

  isAggregator(name: string): boolean {
    return this.#planner.isAggregator(name);
  }

  async apply(
    name: string,
    lists: readonly (readonly Series[])[],
    window: Window,
  ): Promise<Result> {
    const row = this.#language.functions.get(name);
    if (row === undefined) throw badRequest(`cannot evaluate target: no such function: ${name}`);
    const values = new Map<string, SeriesSource[]>();
    for (const [index, list] of lists.entries()) {
      const last = row.parameters.at(-1);
      const parameter = row.parameters[index] ?? (last?.isMultiple === true ? last : undefined);
      if (parameter === undefined || !['seriesList', 'any'].includes(parameter.type)) {
        throw badRequest(`cannot evaluate ${name}: does not take ${lists.length} lists of series`);
      }
      const sources = values.get(parameter.name) ?? [];
      values.set(parameter.name, sources);
      sources.push({ kind: 'series', list });
    }
    for (const parameter of row.parameters) {
      if (!parameter.isRequired || values.has(parameter.name)) continue;
      throw badRequest(`cannot evaluate ${name}: ${parameter.name} is missing`);
    }
    return await row.evaluate(new Call(new Arguments(name, row.parameters, values), window, this));
  }

  async events(tags: readonly string[] | null, window: Window): Promise<readonly number[]> {
    const { findEvents, work } = this.#context;
    return findEvents === null ? [] : await work.outside(findEvents(tags, window, work.signal));
  }

  async reserve(rows: number): Promise<void> {
    this.#check(rows);
    if (rows > madeRowsMax) {
      throw badRequest(
        `cannot evaluate target: makes a series of more than ${madeRowsMax} rows: ${rows}; ask for less time, or for rows that are further apart`,
      );
    }
    this.#reservedRows += rows;
    this.#takenRows += rows;
    await this.#context.memory?.take(rows);
  }

  async keep(rows: number): Promise<void> {
    this.#keptRows += rows;
    this.#takenRows += rows;
    await this.#context.memory?.take(rows);
  }

  async reserveNames(characters: number): Promise<void> {
    const rows = rowsOfNames(characters);
    this.#reservedRows += rows;
    this.#takenRows += rows;
    await this.#context.memory?.take(rows);
  }

  release(rows: number): void {
    this.#reservedRows -= rows;
    this.#takenRows -= rows;
    this.#context.memory?.give(rows);
  }

  async #parse(texts: readonly string[]): Promise<Node[]> {
    const nodes: Node[] = [];
    for (const text of texts) {
      if (text.length > ownTurnLength) await this.work.outside(ownTurn());
      nodes.push(parseTarget(text, this.#context.variables));
      if (this.work.spend(50 * text.length)) await this.work.pause();
    }
    return nodes;
  }

  async #evaluate(node: Node, window: Window): Promise<Result> {
    const request = await this.#planner.requestOf(node, window);
    if (request !== null) return await this.#fetched(request);
    const known = this.#results.get(node, window);
    if (known !== null) return known;
    if (node.kind !== 'call') {
      throw badRequest('cannot evaluate target: is a number or a string, not series');
    }
    this.#calls += 1;
    if (this.#calls > callsMax) {
      throw badRequest(`cannot evaluate target: needs more than ${callsMax} calls of functions`);
    }
    const { row, arguments: args } = this.#planner.bind(node);
    const held = this.#heldRows;
    const reserved = this.#reservedRows;
    const result = await row.evaluate(new Call(args, window, this));
    this.#check(rowsOfResult(result));
    this.#results.keep(node, window, result);
    // What its arguments came to is needed no more, and what it has made is the result.
    this.#reservedRows = reserved;
    await this.#hold(held + rowsOfResult(result) + rowsOfNames(charactersOfResult(result)));
    if (this.work.spend(1_000)) await this.work.pause();
    return result;
  }

  async #fetched(request: FetchRequest): Promise<readonly Series[]> {
    const list: Series[] = [];
    for (const fetched of this.#fetches.get(request)) {
      const { startSeconds, stepSeconds, values } = fetched;
      list.push({
        name: fetched.name,
        pathExpression: request.pathExpression,
        tags: fetched.tags,
        startSeconds,
        endSeconds: startSeconds + stepSeconds * values.length,
        stepSeconds,
        values,
        present: fetched.present,
        consolidation: fetched.consolidation,
        xFilesFactor: this.state.xFilesFactor ?? 0,
        options: {},
        ...(this.#language.areTagsFixed ? { areTagsFixed: true as const } : {}),
      });
      if (this.work.spend(100)) await this.work.pause();
    }
    return list;
  }

  async #hold(rows: number): Promise<void> {
    this.#heldRows = rows;
    const { memory } = this.#context;
    const beside = this.#reservedRows + this.#keptRows + this.#results.rows;
    const more = rows + beside - this.#takenRows;
    this.#takenRows += more;
    if (more > 0) await memory?.take(more);
    else memory?.give(-more);
  }

  #check(rows: number): void {
    const { rowsMax } = this.#context.limits;
    if (rows <= rowsMax) return;
    throw badRequest(`cannot evaluate target: makes more than ${rowsMax} rows`);
  }
}
