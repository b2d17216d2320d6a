/** What windows of histograms have to tell, worded as Prometheus words it. */
import { windowNote } from '#engine/histograms/windows/change.ts';
import { formatGeneral } from '#engine/window_functions/number_format.ts';
import type { Span } from '../words/position.ts';
import type { Annotations } from '../rows/annotations.ts';

const warnings: readonly (readonly [note: number, text: string])[] = [
  [windowNote.mixedWithFloats, 'encountered a mix of histograms and floats for metric name'],
  [windowNote.isGauge, 'this native histogram metric is not a counter:'],
  [windowNote.isNoGauge, 'this native histogram metric is not a gauge:'],
];

export interface WindowNotes {
  /** Bits of `windowNote`, of all steps so far. */
  readonly notes: number;
  /** Steps at which a start overlaps with the row before it. */
  readonly overlappingSteps?: number;
}

export function noteWindows(
  { notes, overlappingSteps = 0 }: WindowNotes,
  metricName: string,
  span: Span,
  annotations: Annotations,
): void {
  if (notes === windowNote.nothing && overlappingSteps === 0) return;
  const has = (note: number): boolean => (notes & note) !== 0;
  const name = JSON.stringify(metricName);
  if (overlappingSteps > 0) {
    annotations.warnOften(
      `sample has start time that overlaps with previous sample timestamp for metric ${name}`,
      overlappingSteps,
      span,
    );
  }
  for (const [note, text] of warnings) if (has(note)) annotations.warn(`${text} ${name}`, span);
  if (has(windowNote.mixed)) noteMixedSchemas(metricName, span, annotations);
  if (has(windowNote.ignored)) {
    annotations.info(
      `ignored histograms in a range containing both floats and histograms for metric name ${name}`,
      span,
    );
  }
  if (has(windowNote.hintsCollide)) noteCollision('aggregation', span, annotations);
  if (has(windowNote.subtractedBounds)) noteReconciled('subtraction', span, annotations);
  if (has(windowNote.addedBounds)) noteReconciled('addition', span, annotations);
  if (has(windowNote.summedBounds)) noteReconciled('aggregation', span, annotations);
}

export function noteMixedSchemas(metricName: string, span: Span, annotations: Annotations): void {
  annotations.warn(
    `vector contains a mix of histograms with exponential and custom buckets schemas for metric name ${JSON.stringify(metricName)}`,
    span,
  );
}

export function isQuantile(value: number): boolean {
  return value >= 0 && value <= 1;
}

/** Each value that is none of a quantile. */
export function noteQuantiles(quantiles: Float64Array, span: Span, annotations: Annotations): void {
  let last = 0;
  for (const q of quantiles) {
    // Most are the same at all steps.
    if (Object.is(q, last) || isQuantile(q)) continue;
    annotations.warn(`quantile value should be between 0 and 1, got ${formatGeneral(q)}`, span);
    last = q;
  }
}

export type HistogramOperation = 'addition' | 'subtraction' | 'aggregation';

/** One of two says that the counter was reset, the other that it was not. */
export function noteCollision(
  operation: HistogramOperation,
  span: Span,
  annotations: Annotations,
): void {
  annotations.warn(`conflicting counter resets during histogram ${operation}`, span);
}

/** Custom bounds that differ. */
export function noteReconciled(
  operation: HistogramOperation,
  span: Span,
  annotations: Annotations,
): void {
  annotations.info(`mismatched custom buckets were reconciled during ${operation}`, span);
}
