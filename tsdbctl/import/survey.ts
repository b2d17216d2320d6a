/** What an import would take over, and whether the cluster would take it. */
import { formatDurationNanos, nanosPerMilli } from '#lib/time.ts';
import type { ImportPart, ImportSource } from '../sources/source.ts';
import { takeParts } from './taking.ts';
import type { TakingNamespace } from './target.ts';

export interface Survey {
  readonly parts: number;
  readonly bytes: number;
  /** Of parts one after the other: a series that is in several of them counts in each. */
  readonly series: number;
  readonly rows: number;
  readonly histograms: number;
  /** Null when there are no rows. */
  readonly firstNanos: bigint | null;
  readonly lastNanos: bigint | null;
}

/** Reads everything and writes nothing. @param onPart is told of each */
export async function surveyOf(
  source: ImportSource,
  signal: AbortSignal,
  onPart: (part: ImportPart, rows: number) => void,
): Promise<Survey> {
  let all: Survey = {
    parts: 0,
    bytes: 0,
    series: 0,
    rows: 0,
    histograms: 0,
    firstNanos: null,
    lastNanos: null,
  };
  const take = async (part: ImportPart): Promise<void> => {
    let { series, rows, histograms: histogramCount, firstNanos, lastNanos } = all;
    for await (const { timestampNanos, histograms = [] } of part.series(0)) {
      signal.throwIfAborted();
      series += 1;
      rows += timestampNanos.length;
      histogramCount += histograms.length;
      const ends = [timestampNanos.at(0), timestampNanos.at(-1)];
      ends.push(histograms.at(0)?.timestampNanos, histograms.at(-1)?.timestampNanos);
      for (const nanos of ends) {
        if (nanos === undefined) continue;
        if (firstNanos === null || nanos < firstNanos) firstNanos = nanos;
        if (lastNanos === null || nanos > lastNanos) lastNanos = nanos;
      }
    }
    onPart(part, rows + histogramCount - all.rows - all.histograms);
    // A part that is gone half way is not counted.
    all = {
      parts: all.parts + 1,
      bytes: all.bytes + part.bytes,
      series,
      rows,
      histograms: histogramCount,
      firstNanos,
      lastNanos,
    };
  };
  await takeParts(source, () => false, take);
  return all;
}

/** Why the cluster would refuse old rows; null when it takes them. */
export function problemOf(
  firstNanos: bigint,
  nowNanos: bigint,
  namespaces: readonly TakingNamespace[],
): string | null {
  const from = new Date(Number(firstNanos / nanosPerMilli)).toISOString();
  const ageNanos = nowNanos - firstNanos;
  const asked = `rows from ${from} on (${formatDurationNanos(ageNanos - (ageNanos % 60_000_000_000n))} ago)`;
  const all = namespaces.map(
    ({ name, coldWrites, retentionNanos }) =>
      `${name} (retention ${formatDurationNanos(retentionNanos)}, cold writes ${coldWrites ? 'on' : 'off'})`,
  );
  const takes = namespaces.some(
    ({ coldWrites, retentionNanos, bufferPastNanos }) =>
      ageNanos <= (coldWrites ? retentionNanos : bufferPastNanos),
  );
  if (takes) return null;
  return (
    `no READY namespace takes ${asked}: ${all.length === 0 ? 'there is none' : all.join(', ')}; ` +
    `one is needed with "coldWritesEnabled": true and a retention that reaches back that far, or --from leaves older rows out`
  );
}
