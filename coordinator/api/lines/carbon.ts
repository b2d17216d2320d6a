/** Lines of Carbon's plaintext as the body of a request, which are answered: what takes over paths sends them so. */
import { badRequest } from '#lib/errors.ts';
import type { Ingest } from '../../ingest/ingest.ts';
import { decodedChunks } from '../../http/decoding.ts';
import { type ApiAnswer, type ApiRequest, emptyAnswer } from '../../http/http_api.ts';

export async function carbonWrite(
  ingest: Ingest,
  request: ApiRequest,
  body: () => Promise<Uint8Array>,
): Promise<ApiAnswer> {
  const bytes = await body();
  if (bytes.length === 0) throw badRequest('the request body is empty: lines are expected');
  const { signal } = request;
  const chunks = decodedChunks(bytes, request.header('content-encoding'), signal);
  // Times are seconds with a fraction or not, and -1 for now.
  const times = { unitNanos: 1n, defaultNanos: null };
  await ingest.lines('carbon', chunks, times, ingest.begin(signal));
  return { ...emptyAnswer, status: 204 };
}
