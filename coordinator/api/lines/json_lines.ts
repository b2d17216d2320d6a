/** Writes of exported lines of JSON, as VictoriaMetrics has them and coordinator/export makes them. */
import type { LabelSeries } from '#engine/json_lines/series.ts';
import { badRequest } from '#lib/errors.ts';
import type { TagRules } from '#lib/tags.ts';
import { decodedChunks } from '../../http/decoding.ts';
import { type ApiAnswer, type ApiRequest, emptyAnswer } from '../../http/http_api.ts';
import type { Ingest } from '../../ingest/ingest.ts';

export interface JsonLinesSetup {
  readonly ingest: Ingest;
  readonly series: LabelSeries;
  /** Those of the series. */
  readonly tagRules: TagRules;
}

export async function jsonLinesWrite(
  { ingest, series }: JsonLinesSetup,
  request: ApiRequest,
  body: () => Promise<Uint8Array>,
): Promise<ApiAnswer> {
  // Without them rows would be of other series than the sender means.
  if (request.urlParameters.has('extra_label')) {
    throw badRequest('extra_label: no labels are added here; they have to be in the lines');
  }
  const bytes = await body();
  if (bytes.length === 0) throw badRequest('the request body is empty: lines are expected');
  const work = ingest.begin(request.signal);
  const chunks = decodedChunks(bytes, request.header('content-encoding'), request.signal);
  await ingest.jsonLines(series, chunks, work);
  return { ...emptyAnswer, status: 204 };
}
