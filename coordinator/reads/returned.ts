/** Limits on what an answer returns of what was read: the rest is left out, and a header says so. */
import { bothNames } from '../http/http_api.ts';

/** 0 = no limit. */
export interface ReturnedLimits {
  /** Of the answer to a query. */
  readonly seriesMax: number;
  /** The same, all series together. */
  readonly rowsMax: number;
  /** Of names, values and series without rows. */
  readonly namesMax: number;
}

/** What is returned of a result. */
export interface ReturnedPart {
  /** The first ones, whole. */
  readonly series: number;
  readonly rows: number;
  readonly seriesInAll: number;
}

/** The series of an answer. */
interface Returnable {
  readonly seriesCount: number;
  rowCount(series: number): number;
}

/** Null where no limit is asked for. */
export function returnedPart(
  result: Returnable,
  { seriesMax, rowsMax }: ReturnedLimits,
): ReturnedPart | null {
  if (seriesMax === 0 && rowsMax === 0) return null;
  const seriesInAll = result.seriesCount;
  const most = seriesMax > 0 ? Math.min(seriesMax, seriesInAll) : seriesInAll;
  let rows = 0;
  for (let series = 0; series < most; series++) {
    const more = result.rowCount(series);
    if (rowsMax > 0 && rows + more > rowsMax) return { series, rows, seriesInAll };
    rows += more;
  }
  return { series: most, rows, seriesInAll };
}

/** What goes with a result of which a part is returned, its header in M3's form. */
export function toldOfPart(part: ReturnedPart | null): {
  readonly headers: Readonly<Record<string, string>>;
  readonly warnings: readonly string[];
  readonly seriesMax: number;
} {
  if (part === null) return { headers: {}, warnings: [], seriesMax: Number.POSITIVE_INFINITY };
  const { series, rows, seriesInAll } = part;
  const isCut = series < seriesInAll;
  const told = { Series: series, Datapoints: rows, TotalSeries: seriesInAll, Limited: isCut };
  return {
    headers: bothNames('Returned-Data-Limited', JSON.stringify(told)),
    warnings: isCut ? [cutWarning] : [],
    seriesMax: series,
  };
}

/** As Prometheus says it. */
export const cutWarning = 'results truncated due to limit';

/** The same of names, values and series without rows. */
export function returnedNamesHeaders(
  returned: number,
  inAll: number,
  { namesMax }: ReturnedLimits,
): Record<string, string> {
  if (namesMax === 0) return {};
  const told = { Results: returned, TotalResults: inAll, Limited: returned < inAll };
  return bothNames('Returned-Metadata-Limited', JSON.stringify(told));
}
