/** What an import would take over, and whether the cluster would take it. */
import { type Tag, type TagRules, tagsProblem } from '#lib/tags.ts';
import { formatDurationNanos, nanosPerMilli } from '#lib/time.ts';
import {
  carbonPathOf,
  type ImportPart,
  type ImportSource,
  tagsWithValues,
} from '../sources/source.ts';
import { takeParts } from './taking.ts';
import type { TakingNamespace } from './target.ts';

export interface Survey {
  readonly parts: number;
  readonly bytes: number;
  /** Of parts one after the other: a series that is in several of them counts in each. */
  readonly series: number;
  readonly rows: number;
  readonly histograms: number;
  /** Series that were left out, since their tags cannot be read. */
  readonly untagged: number;
  /** Parts that the source deleted before they were read, and has no more. */
  readonly lost: readonly string[];
  /** Null when there are no rows. */
  readonly firstNanos: bigint | null;
  readonly lastNanos: bigint | null;
  /** Series that are refused, or have rows that are, by the reason without its values. */
  readonly refusals: readonly Refusal[];
}

export interface Refusal {
  readonly series: number;
  /** Of one of them. */
  readonly example: string;
}

/**
 * Reads everything and writes nothing.
 * @param rules of the coordinator for tags
 * @param onPart is told of each part
 * @param onDamage of what is damaged, which is passed over then
 */
export async function surveyOf(
  source: ImportSource,
  rules: TagRules,
  signal: AbortSignal,
  onPart: (part: ImportPart, rows: number) => void,
  onDamage?: (line: string) => void,
): Promise<Survey> {
  let all: Survey = {
    parts: 0,
    bytes: 0,
    series: 0,
    rows: 0,
    histograms: 0,
    untagged: 0,
    lost: [],
    firstNanos: null,
    lastNanos: null,
    refusals: [],
  };
  const refusals = new Map<string, { series: number; example: string }>();
  const check = (tags: readonly Tag[], values: Float64Array): void => {
    const path = carbonPathOf(tags);
    const problem =
      path === null ? tagsProblem(tagsWithValues(tags), rules) : pathProblem(path, values);
    if (problem === null) return;
    // Without what it says of the one series.
    const kind = problem.replace(/: .*$/s, '');
    const known = refusals.get(kind);
    if (known === undefined) refusals.set(kind, { series: 1, example: problem });
    else known.series += 1;
  };
  const take = async (part: ImportPart): Promise<boolean> => {
    let { series, rows, histograms: histogramCount, firstNanos, lastNanos } = all;
    for await (const { tags, timestampNanos, values, histograms = [] } of part.series(0)) {
      signal.throwIfAborted();
      check(tags, values);
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
      untagged: all.untagged + (part.untagged?.() ?? 0),
      lost: [],
      firstNanos,
      lastNanos,
      refusals: [],
    };
    return true;
  };
  const { lost } = await takeParts(source, { isDone: () => false, take, onDamage, signal });
  return { ...all, lost, refusals: [...refusals.values()] };
}

function pathProblem(path: string, values: Float64Array): string | null {
  if (!values.some((value) => Number.isNaN(value))) return null;
  return `rows of a path of Carbon that are no number, which its lines cannot say: ${path}`;
}

/**
 * Why the cluster would refuse rows of their age; null when it takes them. They go into all namespaces, and one that refuses a row
 * is enough, but for those past its retention, where another one keeps rows longer.
 * @param ends of the rows, inclusive
 */
export function problemOf(
  { firstNanos, lastNanos }: { readonly firstNanos: bigint; readonly lastNanos: bigint },
  nowNanos: bigint,
  namespaces: readonly TakingNamespace[],
): string | null {
  const [oldestNanos, youngestNanos] = [nowNanos - firstNanos, nowNanos - lastNanos];
  const longestNanos = namespaces.reduce((a, { retentionNanos: b }) => (b > a ? b : a), 0n);
  const refusing = namespaces.filter(({ coldWrites, retentionNanos, bufferPastNanos }) => {
    const takenNanos = coldWrites ? retentionNanos : bufferPastNanos;
    if (oldestNanos <= takenNanos) return false;
    return retentionNanos === longestNanos || (!coldWrites && youngestNanos <= retentionNanos);
  });
  if (namespaces.length > 0 && refusing.length === 0) return null;
  const from = new Date(Number(firstNanos / nanosPerMilli)).toISOString();
  const asked = `rows from ${from} on (${formatDurationNanos(oldestNanos - (oldestNanos % 60_000_000_000n))} ago)`;
  const shown = (all: readonly TakingNamespace[]): string =>
    all
      .map(
        ({ name, coldWrites, retentionNanos }) =>
          `${name} (retention ${formatDurationNanos(retentionNanos)}, cold writes ${coldWrites ? 'on' : 'off'})`,
      )
      .join(', ');
  if (refusing.length < namespaces.length) {
    return `not each READY namespace takes ${asked}, and rows go into all of them: ${shown(refusing)}; make such a namespace when the history is here, or with "coldWritesEnabled": true`;
  }
  return (
    `no READY namespace takes ${asked}: ${namespaces.length === 0 ? 'there is none' : shown(namespaces)}; ` +
    `one is needed with "coldWritesEnabled": true and a retention that reaches back that far, or --from leaves older rows out`
  );
}
