/** Trees of the queries that came lately: a dashboard sends the same texts again and again. */
import type { Turning } from '#engine/aside/aside.ts';
import type { Expr } from './ast.ts';
import type { PromqlFeatures } from './features.ts';
import { parseQuery } from './parser.ts';

/** Longer texts are not kept; of the others so many, and so many characters together. */
const lengthMax = 4_096;
const keptMax = 1_000;
const keptCharactersMax = 256 << 10;

export class ParsedQueries {
  readonly #features: PromqlFeatures;
  /** Least recently used first. */
  readonly #kept = new Map<string, Expr>();
  #characters = 0;

  constructor(features: PromqlFeatures) {
    this.#features = features;
  }

  /** @throws as `parseQuery` */
  async parse(query: string, turning: Turning): Promise<Expr> {
    const kept = this.#taken(query);
    const expr = kept ?? (await parseQuery(query, this.#features, turning));
    if (query.length <= lengthMax) this.#keep(query, expr);
    return expr;
  }

  #taken(query: string): Expr | undefined {
    const expr = this.#kept.get(query);
    if (expr === undefined) return undefined;
    this.#kept.delete(query);
    this.#characters -= query.length;
    return expr;
  }

  #keep(query: string, expr: Expr): void {
    // Another request may have parsed it meanwhile.
    this.#taken(query);
    this.#kept.set(query, expr);
    this.#characters += query.length;
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= keptMax && this.#characters <= keptCharactersMax) return;
      this.#taken(oldest);
    }
  }

  get size(): number {
    return this.#kept.size;
  }
}
