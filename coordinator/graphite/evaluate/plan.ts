/**
 * What expressions read: each function says for which windows it wants its series, so most of what will be
 * read is known before anything is evaluated, and is asked for at once.
 */
import { badRequest, shownText } from '#lib/errors.ts';
import type { Arguments } from '../calls/arguments.ts';
import { bindArguments } from '../calls/bind.ts';
import type { FunctionRow } from '../calls/row.ts';
import type { Window } from '../calls/window.ts';
import { functions } from '../functions/table.ts';
import { parseTagExpressions, type TagExpression } from '../parse/tag_expression.ts';
import type { CallNode, Node } from '../parse/tree.ts';
import type { TimeContext } from '../time/attime.ts';
import type { FetchRequest } from './context.ts';

/** Paths with windows that one request reads. */
const requestsMax = 10_000;
/** Unix seconds, of either sign, that calendars have. */
const secondsMax = 8.64e12;

export interface BoundCall {
  readonly row: FunctionRow;
  readonly arguments: Arguments;
}

export class Planner {
  readonly #time: TimeContext;
  readonly #bound = new WeakMap<CallNode, BoundCall>();
  /** Nodes with the windows for which `requests` has looked at them. */
  readonly #seen = new WeakMap<Node, Set<string>>();
  readonly #tagExpressions = new WeakMap<CallNode, readonly TagExpression[]>();

  constructor(time: TimeContext) {
    this.#time = time;
  }

  /** @throws {TsdbError} BAD_REQUEST when there is no such function, or it does not take these arguments */
  bind(node: CallNode): BoundCall {
    let bound = this.#bound.get(node);
    if (bound === undefined) {
      const row = functions.get(node.name);
      if (row === undefined) {
        throw badRequest(`cannot evaluate target: no such function: ${shownText(node.name)}`);
      }
      bound = { row, arguments: bindArguments(row, node, isAggregator) };
      this.#bound.set(node, bound);
    }
    return bound;
  }

  /** Null for what reads nothing itself. */
  requestOf(node: Node, window: Window): FetchRequest | null {
    if (node.kind === 'path') {
      return { pathExpression: node.path, tagExpressions: null, ...window };
    }
    if (node.kind !== 'call' || node.name !== 'seriesByTag') return null;
    let tagExpressions = this.#tagExpressions.get(node);
    if (tagExpressions === undefined) {
      tagExpressions = parseTagExpressions(this.bind(node).arguments.texts('tagExpressions'));
      this.#tagExpressions.set(node, tagExpressions);
    }
    return { pathExpression: node.text, tagExpressions, ...window };
  }

  /**
   * All that is known to be read and was not told before, each path and window once.
   * @throws {TsdbError} BAD_REQUEST as `bind`, and when it is too much
   */
  requests(nodes: readonly Node[], window: Window): readonly FetchRequest[] {
    const found = new Map<string, FetchRequest>();
    const visit = (node: Node, at: Window): void => {
      checkWindow(at);
      const seen = this.#seen.get(node) ?? new Set();
      this.#seen.set(node, seen);
      const key = windowKey(at);
      if (seen.has(key)) return;
      seen.add(key);
      const request = this.requestOf(node, at);
      if (request !== null) found.set(requestKey(request), request);
      else if (node.kind === 'call') this.#visitArguments(node, at, visit);
      if (seen.size > requestsMax || found.size > requestsMax) {
        throw badRequest(
          `cannot evaluate target: reads more than ${requestsMax} paths and windows`,
        );
      }
    };
    for (const node of nodes) visit(node, window);
    return [...found.values()];
  }

  #visitArguments(
    node: CallNode,
    window: Window,
    visit: (node: Node, window: Window) => void,
  ): void {
    const { row, arguments: args } = this.bind(node);
    const windows = row.windows?.(args, window, this.#time) ?? [window];
    for (const { name } of row.parameters) {
      for (const source of args.sources(name)) {
        if (source.kind !== 'expression') continue;
        for (const each of windows) visit(source.node, each);
      }
    }
  }
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

function windowKey({ fromSeconds, untilSeconds }: Window): string {
  return `${fromSeconds} ${untilSeconds}`;
}

function isAggregator(name: string): boolean {
  return functions.get(name)?.isAggregator === true;
}
