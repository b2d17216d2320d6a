/** Prometheus remote write. */
import type { RemoteWriteVersion } from '#engine/write_decoder/write_decoder.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Forwarding } from '../forwarding/forwarding.ts';
import type { Ingest } from '../ingest/ingest.ts';
import type { TagMapping } from '../ingest/tag_mapping.ts';
import { RowsRefused, type Written } from '../ingest/writing/refusals.ts';
import {
  type ApiAnswer,
  type ApiRequest,
  emptyAnswer,
  errorAnswer,
  jsonAnswer,
} from '../http/http_api.ts';
import { asUnavailable } from '../http/unavailable.ts';
import { tagMappingOf } from '../ingest/write_headers.ts';

export interface RemoteWriteSetup {
  readonly ingest: Ingest;
  /** Null when nothing is passed on. */
  readonly forwarding: Forwarding | null;
}

export async function remoteWrite(
  setup: RemoteWriteSetup,
  request: ApiRequest,
  body: () => Promise<Uint8Array>,
): Promise<ApiAnswer> {
  const version = versionOf(request.header('content-type'));
  const encoding = request.header('content-encoding');
  if (version === null) {
    return unsupported(
      `Content-Type: no message of remote write: ${request.header('content-type')}`,
    );
  }
  if (encoding !== '' && encoding.toLowerCase() !== 'snappy') {
    return unsupported(`Content-Encoding: only snappy is served: ${encoding}`);
  }
  const write = async (): Promise<Written> => {
    const mapping = tagMappingOf(setup.ingest, request);
    return writeAndForward(setup, request, await body(), version, mapping);
  };
  try {
    if (version === 2) return await remoteWriteV2(write, request.signal);
    await write();
    return emptyAnswer;
  } catch (error) {
    throw asUnavailable(error);
  }
}

/**
 * A body that the cluster did not take now is passed on, too: its sender comes again, and rows that came before are no others. One that
 * is none is not, nor what there is no room for, or nobody waits for.
 */
async function writeAndForward(
  { ingest, forwarding }: RemoteWriteSetup,
  request: ApiRequest,
  bytes: Uint8Array,
  version: RemoteWriteVersion,
  mapping: TagMapping | null,
): Promise<Written> {
  let isPassedOn = true;
  try {
    return await ingest.remoteWrite(bytes, version, request.signal, mapping);
  } catch (error) {
    isPassedOn =
      error instanceof RowsRefused ||
      (error instanceof TsdbError &&
        (error.code === 'UNAVAILABLE' || error.code === 'DEADLINE_EXCEEDED'));
    throw error;
  } finally {
    if (isPassedOn) forwarding?.forward(request, bytes, version);
  }
}

/**
 * By the content type's parameter `proto`; without one it is version 1, as without a content type. Null: neither of the
 * two, or parameters that cannot be read, of which one may say that it is another message: as version 1 it would have no rows.
 */
function versionOf(contentType: string): RemoteWriteVersion | null {
  const [type, ...parameters] = contentType.split(';').map((part) => part.trim());
  const mediaType = type!.toLowerCase();
  if (mediaType !== '' && mediaType !== 'application/x-protobuf') return null;
  if (parameters.at(-1) === '') parameters.pop();
  let message: string | null = null;
  for (const parameter of parameters) {
    const [, name, value] = /^([^\s="]+)\s*=\s*"?([^"]*)"?$/.exec(parameter) ?? [];
    if (name === undefined) return null;
    if (name.toLowerCase() !== 'proto') continue;
    if (message !== null) return null;
    message = value!.toLowerCase();
  }
  if (message === null || message === 'prometheus.writerequest') return 1;
  return message === 'io.prometheus.write.v2.request' ? 2 : null;
}

function unsupported(reason: string): ApiAnswer {
  return jsonAnswer({ status: 'error', errorType: 'bad_data', error: reason }, {}, 415);
}

/** Of a body that is to be sent again whole, or of which nothing could be read. */
const nothingWritten: Written = { samples: 0, histograms: 0, exemplars: 0 };

/**
 * Version 2 says in headers what was written, also where that is nothing, so that its senders see what a receiver does not
 * keep. Its specification asks for 204.
 */
async function remoteWriteV2(
  write: () => Promise<Written>,
  signal: AbortSignal,
): Promise<ApiAnswer> {
  try {
    const written = await write();
    return { ...emptyAnswer, status: 204, headers: writtenHeaders(written) };
  } catch (error) {
    // Nobody waits for it any more, or it is a defect of ours: both are the server's.
    if (signal.aborted || !(error instanceof TsdbError)) throw error;
    const written = error instanceof RowsRefused ? error.written : nothingWritten;
    const answer = errorAnswer(asUnavailable(error));
    return { ...answer, headers: { ...answer.headers, ...writtenHeaders(written) } };
  }
}

function writtenHeaders({ samples, histograms, exemplars }: Written): Record<string, string> {
  return {
    'X-Prometheus-Remote-Write-Samples-Written': String(samples),
    'X-Prometheus-Remote-Write-Histograms-Written': String(histograms),
    'X-Prometheus-Remote-Write-Exemplars-Written': String(exemplars),
  };
}
