/**
 * What expressions read: each function says for which windows it wants its series, so most of what will be
 * read is known before anything is evaluated, and is asked for at once.
 */
import { badRequest, shownText } from '#lib/errors.ts';
import type { Work } from '#lib/turns/turns.ts';
import type { Arguments } from '../calls/arguments.ts';
import { bindArguments } from '../calls/bind.ts';
import type { FunctionRow } from '../calls/row.ts';
import type { Window } from '../calls/window.ts';
import { type TagExpression, TagExpressions } from '../parse/tag_expression.ts';
import type { CallNode, Node } from '../parse/tree.ts';
import type { TimeContext } from '../time/attime.ts';
import type { FetchRequest } from './context.ts';

/** Expressions with windows that are looked at for one request. */
const visitsMax = 100_000;
/** What it takes to look at one, in units of work. */
const visitUnits = 200;
/** Unix seconds, of either sign, that calendars have. */
const secondsMax = 8.64e12;

export interface BoundCall {
  readonly row: FunctionRow;
  readonly arguments: Arguments;
}

export class Planner {
  readonly #time: TimeContext;
  readonly #work: Work;
  readonly #functions: ReadonlyMap<string, FunctionRow>;
  #visits = 0;
  readonly #bound = new WeakMap<CallNode, BoundCall>();
  /** Nodes with the windows for which `requests` has looked at them. */
  readonly #seen = new WeakMap<Node, Set<string>>();
  readonly #tagExpressions: TagExpressions;
  readonly #expressionsOf = new WeakMap<CallNode, readonly TagExpression[]>();

  /** @param functions by their names */
  constructor(time: TimeContext, work: Work, functions: ReadonlyMap<string, FunctionRow>) {
    this.#time = time;
    this.#work = work;
    this.#functions = functions;
    this.#tagExpressions = new TagExpressions(work);
  }

  /** Whether there is a function of this name that combines a list to one series. */
  isAggregator(name: string): boolean {
    return this.#functions.get(name)?.isAggregator === true;
  }

  /** @throws {TsdbError} BAD_REQUEST when there is no such function, or it does not take these arguments */
  bind(node: CallNode): BoundCall {
    let bound = this.#bound.get(node);
    if (bound === undefined) {
      const row = this.#functions.get(node.name);
      if (row === undefined) {
        throw badRequest(`cannot evaluate target: no such function: ${shownText(node.name)}`);
      }
      bound = { row, arguments: bindArguments(row, node, (name) => this.isAggregator(name)) };
      this.#bound.set(node, bound);
    }
    return bound;
  }

  /** Null for what reads nothing itself. */
  async requestOf(node: Node, window: Window): Promise<FetchRequest | null> {
    if (node.kind === 'path') {
      return { pathExpression: node.path, tagExpressions: null, ...window };
    }
    if (node.kind === 'select') {
      const { text, selections } = node;
      return { pathExpression: text, tagExpressions: null, selections, ...window };
    }
    if (node.kind !== 'call' || node.name !== 'seriesByTag') return null;
    let tagExpressions = this.#expressionsOf.get(node);
    if (tagExpressions === undefined) {
      const texts = this.bind(node).arguments.texts('tagExpressions');
      tagExpressions = await this.#tagExpressions.parse(texts);
      this.#expressionsOf.set(node, tagExpressions);
    }
    return { pathExpression: node.text, tagExpressions, ...window };
  }

  /**
   * All that is known to be read and was not told before, each path and window once.
   * @throws {TsdbError} BAD_REQUEST as `bind`, and when it is too much
   */
  async requests(nodes: readonly Node[], window: Window): Promise<readonly FetchRequest[]> {
    const found = new Map<string, FetchRequest>();
    // The next one is the last.
    const waiting = nodes.map((node) => ({ node, window })).reverse();
    for (let visit = waiting.pop(); visit !== undefined; visit = waiting.pop()) {
      this.#count();
      if (this.#work.spend(visitUnits)) await this.#work.pause();
      if (!this.#isNew(visit)) continue;
      const request = await this.requestOf(visit.node, visit.window);
      if (request !== null) found.set(requestKey(request), request);
      else if (visit.node.kind === 'call') {
        for (const next of this.#argumentsOf(visit.node, visit.window).reverse()) {
          waiting.push(next);
        }
      }
    }
    return [...found.values()];
  }

  #count(): void {
    this.#visits += 1;
    if (this.#visits <= visitsMax) return;
    throw badRequest(
      `cannot evaluate target: looks at more than ${visitsMax} expressions and windows`,
    );
  }

  #isNew({ node, window }: Visit): boolean {
    checkWindow(window);
    const seen = this.#seen.get(node) ?? new Set();
    this.#seen.set(node, seen);
    const key = windowKey(window);
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  }

  #argumentsOf(node: CallNode, window: Window): Visit[] {
    const { row, arguments: args } = this.bind(node);
    const windows = row.windows?.(args, window, this.#time) ?? [window];
    const visits: Visit[] = [];
    for (const { name } of row.parameters) {
      for (const source of args.sources(name)) {
        if (source.kind !== 'expression') continue;
        for (const each of windows) visits.push({ node: source.node, window: each });
      }
    }
    return visits;
  }
}

/** An expression that is looked at for a window. */
interface Visit {
  readonly node: Node;
  readonly window: Window;
}

/** @throws {TsdbError} BAD_REQUEST when no calendar goes so far */
function checkWindow({ fromSeconds, untilSeconds }: Window): void {
  if (Math.abs(fromSeconds) <= secondsMax && Math.abs(untilSeconds) <= secondsMax) return;
  throw badRequest(
    `cannot evaluate target: a window is out of all times: ${fromSeconds} to ${untilSeconds}`,
  );
}

export function requestKey(request: FetchRequest): string {
  return `${windowKey(request)} ${request.pathExpression}`;
}

/** Equal for equal windows. */
export function windowKey({ fromSeconds, untilSeconds }: Window): string {
  return `${fromSeconds} ${untilSeconds}`;
}
