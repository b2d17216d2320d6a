/** OTLP over HTTP: metrics as protobuf or JSON, answered in the same form as its specification has it. */
import type { OtlpReader } from '#engine/otlp/reader.ts';
import { outcomeOf } from '#lib/env/grpc/status.ts';
import { answerTextOf, badRequest, shownText, TsdbError } from '#lib/errors.ts';
import {
  type ApiAnswer,
  type ApiRequest,
  errorAnswer,
  jsonAnswer,
  jsonContentType,
} from '../http/http_api.ts';
import type { Ingest } from '../ingest/ingest.ts';
import { exportAnswer, exportJson, statusMessage } from './answers.ts';
import { withMessage } from './body.ts';

export interface OtlpSetup {
  readonly ingest: Pick<Ingest, 'begin' | 'otlp'>;
  readonly reader: OtlpReader;
}

const protobufContentType = 'application/x-protobuf';

export async function otlpMetrics(
  { ingest, reader }: OtlpSetup,
  request: ApiRequest,
  body: () => Promise<Uint8Array>,
): Promise<ApiAnswer> {
  const contentType = request.header('content-type').split(';')[0]!.trim().toLowerCase();
  const isJson = contentType === jsonContentType;
  if (!isJson && contentType !== protobufContentType) {
    const reason = `Content-Type: neither ${protobufContentType} nor ${jsonContentType}: ${shownText(contentType)}`;
    return { ...errorAnswer(badRequest(reason)), status: 415 };
  }
  const { signal } = request;
  try {
    const encoding = request.header('content-encoding').trim();
    const encoded = { bytes: await body(), encoding, isJson };
    const refused = await withMessage(encoded, signal, (message) =>
      ingest.otlp(reader, message, ingest.begin(signal)),
    );
    return isJson ? jsonAnswer(exportJson(refused)) : protobufAnswer(200, exportAnswer(refused));
  } catch (error) {
    if (!(error instanceof TsdbError)) throw error;
    const { status, headers } = errorAnswer(error);
    const code = outcomeOf(error).status;
    const message = answerTextOf(error);
    return isJson
      ? jsonAnswer({ code, message }, headers, status)
      : protobufAnswer(status, statusMessage(code, message), headers);
  }
}

function protobufAnswer(
  status: number,
  body: Uint8Array,
  headers: Readonly<Record<string, string>> = {},
): ApiAnswer {
  return { status, headers: { ...headers, 'Content-Type': protobufContentType }, body };
}
