/**
 * What damage of the log means, decided of what was read of it: whether rows that were acknowledged
 * are missing, and of which times they may be. What a crash tore in the middle of a write was
 * acknowledged to nobody.
 */
import {
  anyNamespace,
  type MarkSince,
  type RowSpan,
  segmentHeaderBytes,
  type SegmentMark,
} from '../persist/commitlog/format.ts';
import type { SegmentProblem } from '../persist/commitlog/reader.ts';

/** What was found in one file. */
export interface SegmentReading {
  readonly path: string;
  /** Bytes of the file. */
  readonly bytes: number;
  /** As its header says; null when that is damaged. */
  readonly hasMarks: boolean | null;
  readonly problems: readonly SegmentProblem[];
  /** Records whose checksum is right and that cannot be read all the same. */
  readonly recordsMalformed: number;
  /** Of rows behind the last mark whose series was in what was skipped. */
  readonly spansWithoutSeries: readonly RowSpan[];
  /** Of some of these not even the namespace is known. */
  readonly lacksNamespaces: boolean;
}

/** Rows that were acknowledged and may be missing. */
export interface LogLoss {
  readonly path: string;
  readonly reason: string;
  /** Where they may lie; null when nothing is left that tells. */
  readonly spans: readonly RowSpan[] | null;
}

/** Of marks that speak of one segment, the one that knows most. @param b stands behind `a` */
export function laterMark(a: SegmentMark | undefined, b: SegmentMark): SegmentMark {
  return a === undefined || b.syncedEnd >= a.syncedEnd ? b : a;
}

/**
 * Of which times the rows before a mark are, that adds to a whole one.
 * @param base of that; undefined when it cannot be read any more
 */
export function spansWithBase(
  { spans, firstNanos, lastNanos }: MarkSince,
  base: readonly RowSpan[] | undefined,
): readonly RowSpan[] {
  if (base === undefined) return [{ namespace: anyNamespace, firstNanos, lastNanos }];
  return spans.length === 0 ? base : [...base, ...spans];
}

/** @param mark the one that knows most of the segment, its own or that of a later one */
export function lossOfSegment(
  reading: SegmentReading,
  mark: SegmentMark | undefined,
): LogLoss | null {
  const { path, bytes, hasMarks, recordsMalformed, lacksNamespaces } = reading;
  if (recordsMalformed > 0) return { path, reason: 'records cannot be read', spans: null };
  // A header holds no rows.
  const problems = reading.problems.filter(({ end }) => end > segmentHeaderBytes);
  if (mark !== undefined) {
    const { syncedEnd } = mark;
    const spans = lacksNamespaces ? null : [...mark.spans, ...reading.spansWithoutSeries];
    const hit = problems.find(({ start }) => start < syncedEnd);
    if (hit !== undefined) return { path, reason: `${hit.kind} at ${hit.start}`, spans };
    return bytes < syncedEnd ? { path, reason: `cut off at ${bytes}`, spans } : null;
  }
  // The header was synced before any row, so whoever damaged it was no crash.
  if (hasMarks === null && problems.length > 0) {
    return { path, reason: `corrupt header and ${problems[0]!.kind}`, spans: null };
  }
  if (hasMarks === true) return null;
  const hit = problems.find(({ kind }) => kind !== 'torn tail');
  return hit === undefined ? null : { path, reason: `${hit.kind} at ${hit.start}`, spans: null };
}

/**
 * A snapshot is whole before it counts, so that all damage of it is loss.
 * @param hasEnd its end record is there and agrees
 * @param marks all that were found in it, each of which knows all of its rows
 */
export function lossOfSnapshot(
  { path, problems, recordsMalformed }: SegmentReading,
  hasEnd: boolean,
  marks: readonly SegmentMark[],
): LogLoss | null {
  if (hasEnd && recordsMalformed === 0 && problems.every(({ end }) => end <= segmentHeaderBytes)) {
    return null;
  }
  const [problem] = problems;
  const reason =
    problem === undefined ? 'its end is missing' : `${problem.kind} at ${problem.start}`;
  return { path, reason, spans: marks[0]?.spans ?? null };
}
