/** Warnings and infos of a query, worded as Prometheus words them: each text once, at the place that tells it last. */
import type { ReadScales } from '../../select/storage.ts';
import type { PlanNotes, ValuesRead } from '../plan/plan.ts';
import { Positions, type Span } from '../words/position.ts';

/** Of a kind; what else a query has to tell is counted. */
const shownMax = 10;
/** Of a kind; others are not kept to be counted. */
const keptMax = 1000;

interface Annotation {
  readonly place: number;
  /** Of those that are counted; else 1. */
  readonly count: number;
}

export class Annotations {
  readonly #positions: Positions;
  readonly #warnings: Map<string, Annotation>;
  readonly #infos: Map<string, Annotation>;

  constructor(query: string) {
    this.#positions = new Positions(query);
    this.#warnings = new Map();
    this.#infos = new Map();
  }

  warn(message: string, { start }: Span): void {
    put(this.#warnings, message, { place: start, count: 1 });
  }

  /** Tells how often, when it is more than once. */
  warnOften(message: string, count: number, { start }: Span): void {
    const before = this.#warnings.get(message)?.count ?? 0;
    put(this.#warnings, message, { place: start, count: before + count });
  }

  info(message: string, { start }: Span): void {
    put(this.#infos, message, { place: start, count: 1 });
  }

  /** What was found without data. */
  tell({ warnings, infos }: PlanNotes): void {
    for (const [message, span] of warnings) this.warn(message, span);
    for (const [message, span] of infos) this.info(message, span);
  }

  /**
   * Tells of each selector whose values have steps that are none of what was written: sums or counts of windows beside anything
   * else.
   * @param scales of what each fetch has found
   */
  tellScales(values: readonly ValuesRead[], scales: readonly ReadScales[]): void {
    const bySelector = new Map<number, ValuesRead[]>();
    for (const read of values) {
      const known = bySelector.get(read.span.start);
      if (known === undefined) bySelector.set(read.span.start, [read]);
      else known.push(read);
    }
    for (const reads of bySelector.values()) {
      const found = reads.map(({ fetch }) => scales[fetch]!);
      const others = new Set(found.flatMap((each) => [...each.others]));
      const ofSamples = new Set(found.flatMap((each) => [...each.ofSamples]));
      if (others.size === 0 || others.size + ofSamples.size === 1) continue;
      const beside = ofSamples.size === 0 ? '' : `, and ${[...ofSamples].join(' and ')}`;
      this.info(
        `values of different scales: ${[...others].join(' and ')}, as aggregation rules say${beside}`,
        reads[0]!.span,
      );
    }
  }

  warnings(): string[] {
    return this.#texts('warning', this.#warnings);
  }

  infos(): string[] {
    return this.#texts('info', this.#infos);
  }

  #texts(kind: 'warning' | 'info', all: ReadonlyMap<string, Annotation>): string[] {
    const texts: string[] = [];
    for (const [message, { place, count }] of all) {
      if (texts.length === shownMax) {
        texts.push(`${all.size - shownMax} more ${kind} annotations omitted`);
        break;
      }
      const often = count > 1 ? ` (${count} occurrences)` : '';
      texts.push(`PromQL ${kind}: ${message}${often} (${this.#positions.at(place)})`);
    }
    return texts;
  }
}

function put(all: Map<string, Annotation>, message: string, annotation: Annotation): void {
  if (all.size < keptMax || all.has(message)) all.set(message, annotation);
}
