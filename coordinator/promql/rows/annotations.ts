/** Warnings and infos of a query, each once, worded as Prometheus words them. */
import { lineAndColumn } from '../parse/position.ts';
import type { Span } from '../parse/position.ts';

/** More are counted, not kept. */
const annotationsMax = 100;

export class Annotations {
  readonly #query: string;
  readonly warnings: Set<string>;
  readonly infos: Set<string>;

  constructor(query: string) {
    this.#query = query;
    this.warnings = new Set();
    this.infos = new Set();
  }

  warn(message: string, span: Span): void {
    if (this.warnings.size >= annotationsMax) return;
    this.warnings.add(`PromQL warning: ${message} (${lineAndColumn(this.#query, span.start)})`);
  }

  info(message: string, span: Span): void {
    if (this.infos.size >= annotationsMax) return;
    this.infos.add(`PromQL info: ${message} (${lineAndColumn(this.#query, span.start)})`);
  }
}
