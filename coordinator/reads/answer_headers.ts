/** Headers of answers to reads. */
import { formatDurationNanos } from '#lib/time.ts';
import { bothNames } from '../http/http_api.ts';
import { headerText } from '../http/parameters.ts';
import type { ReadNotes } from '../select/read_notes.ts';

/** Headers that tell how the request was understood and what became of it. */
export function answerHeaders(outcome: {
  readonly timeoutMillis: number;
  readonly seriesLimited: boolean;
  readonly warnings: readonly string[];
  readonly seriesCount?: number;
  /** What the request read; undefined, or nothing, says nothing. */
  readonly read?: ReadNotes | undefined;
}): Record<string, string> {
  const { read } = outcome;
  const limited = [
    ...(outcome.seriesLimited ? ['max_fetch_series_limit_applied'] : []),
    ...outcome.warnings.map((warning) => warning.replace(/[\r\n,]+/g, ' ')),
  ];
  return {
    ...bothNames('Timeout', formatDurationNanos(BigInt(Math.round(outcome.timeoutMillis * 1e6)))),
    ...(limited.length === 0
      ? {}
      : bothNames('Results-Limited', headerText(limited.join(',')).slice(0, 2000))),
    ...(outcome.seriesCount === undefined
      ? {}
      : bothNames('Series-Count', String(outcome.seriesCount))),
    ...(read === undefined || read.names.length === 0
      ? {}
      : {
          ...bothNames('Namespaces', headerText(read.names.join(','))),
          ...bothNames('Unaggregated-Series-Count', String(read.seriesOf('samples'))),
          ...bothNames('Aggregated-Series-Count', String(read.seriesOf('windows'))),
          ...bothNames('Series-With-Samples-Count', String(read.seriesWithRows)),
          ...bothNames('Series-With-No-Samples-Count', String(read.series - read.seriesWithRows)),
          ...bothNames('Fetched-Responses', String(read.responses)),
          ...bothNames('Fetched-Bytes-Estimate', String(read.bytes)),
          ...bothNames('Metadata-Count', String(read.metadata)),
        }),
    ...(read === undefined || read.waits === 0 ? {} : bothNames('Waited', String(read.waits))),
  };
}
