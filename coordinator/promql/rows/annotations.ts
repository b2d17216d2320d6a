/** Warnings and infos of a query, each once, worded as Prometheus words them. */
import { Positions, type Span } from '../parse/position.ts';

/** More are counted, not kept. */
const annotationsMax = 100;

export class Annotations {
  readonly #positions: Positions;
  readonly warnings: Set<string>;
  readonly infos: Set<string>;

  constructor(query: string) {
    this.#positions = new Positions(query);
    this.warnings = new Set();
    this.infos = new Set();
  }

  warn(message: string, span: Span): void {
    if (this.warnings.size >= annotationsMax) return;
    this.warnings.add(`PromQL warning: ${message} (${this.#positions.at(span.start)})`);
  }

  info(message: string, span: Span): void {
    if (this.infos.size >= annotationsMax) return;
    this.infos.add(`PromQL info: ${message} (${this.#positions.at(span.start)})`);
  }
}
