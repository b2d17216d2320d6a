/** Results of nodes that stand in several places of a tree, for each window. */
import { badRequest } from '#lib/errors.ts';
import type { Result, Window } from '../calls/window.ts';
import type { Node } from '../parse/tree.ts';
import { type Series, SeriesGroups } from '../series/series.ts';
import { windowKey } from './plan.ts';

export class SharedResults {
  readonly #shared: ReadonlySet<Node>;
  readonly #rowsMax: number;
  readonly #results = new Map<Node, Map<string, Result>>();
  #rows = 0;

  /** @param rowsMax of all results together */
  constructor(shared: ReadonlySet<Node>, rowsMax: number) {
    this.#shared = shared;
    this.#rowsMax = rowsMax;
  }

  /** Of all that is kept. */
  get rows(): number {
    return this.#rows;
  }

  /** Null when there is none yet. */
  get(node: Node, window: Window): Result | null {
    return this.#results.get(node)?.get(windowKey(window)) ?? null;
  }

  /** @throws {TsdbError} BAD_REQUEST when there are more rows than the limit */
  keep(node: Node, window: Window, result: Result): void {
    if (!this.#shared.has(node)) return;
    this.#rows += rowsOfResult(result);
    if (this.#rows > this.#rowsMax) {
      throw badRequest(
        `cannot evaluate target: keeps more than ${this.#rowsMax} rows of what is used several times`,
      );
    }
    const ofNode = this.#results.get(node) ?? new Map<string, Result>();
    this.#results.set(node, ofNode.set(windowKey(window), result));
  }
}

export function rowsOfResult(result: Result): number {
  let rows = 0;
  for (const list of listsOf(result)) for (const { values } of list) rows += values.length;
  return rows;
}

/** Of the names of all series. */
export function charactersOfResult(result: Result): number {
  let characters = 0;
  for (const list of listsOf(result)) for (const { name } of list) characters += name.length;
  return characters;
}

/** Characters that take the memory of a row. */
const charactersOfRow = 9;

/** Rows that take as much memory. */
export function rowsOfNames(characters: number): number {
  return Math.floor(characters / charactersOfRow);
}

function listsOf(result: Result): readonly (readonly Series[])[] {
  return result instanceof SeriesGroups ? result.lists : [result];
}
