/** What came since metrics were told: plain numbers, for they change with each line. */
import type { LineProblem, PartProblem } from '../lines/line.ts';
import type { StatsdMetrics } from './metrics.ts';

/** Why a sample is not taken, beside what is wrong with its line. */
export type Refusal =
  | 'too_many_series'
  | 'conflicting_type'
  | 'reserved_label'
  | 'dropped_by_mapping'
  | 'negative_counter'
  | 'not_finite'
  | 'too_many_values';

/** Kinds of what is kept, by their codes. */
export const kindNames = ['counter', 'gauge', 'observer', 'set'] as const;
export const counterKind = 0;
export const gaugeKind = 1;
export const observerKind = 2;
export const setKind = 3;

export class StatsdCounts {
  lines = 0;
  packets = 0;
  /** By kind. */
  readonly samples: Float64Array = new Float64Array(kindNames.length);
  readonly #refused = new Map<LineProblem | Refusal, number>();
  readonly #parts = new Map<PartProblem, number>();

  noteRefused(reason: LineProblem | Refusal): void {
    this.#refused.set(reason, (this.#refused.get(reason) ?? 0) + 1);
  }

  notePart(reason: PartProblem): void {
    this.#parts.set(reason, (this.#parts.get(reason) ?? 0) + 1);
  }

  /** Adds all to metrics, and begins anew. */
  tell(metrics: StatsdMetrics): void {
    if (this.lines > 0) metrics.lines.increase(this.lines);
    if (this.packets > 0) metrics.packets.increase(this.packets);
    this.lines = 0;
    this.packets = 0;
    for (const [kind, type] of kindNames.entries()) {
      if (this.samples[kind]! > 0) metrics.samples.increase(this.samples[kind], { type });
    }
    this.samples.fill(0);
    for (const [reason, count] of this.#refused) metrics.refusedSamples.increase(count, { reason });
    for (const [reason, count] of this.#parts) metrics.refusedParts.increase(count, { reason });
    this.#refused.clear();
    this.#parts.clear();
  }
}
