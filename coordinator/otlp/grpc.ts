/** OTLP over gRPC (`coordinator.otlp.grpcListenAddress`): the service of metrics. */
import { type GrpcServer, listenGrpc } from '#lib/env/grpc/server.ts';
import type { GrpcMethod } from '#lib/env/grpc/method.ts';
import { GrpcStatusError, grpcStatus, outcomeOf } from '#lib/env/grpc/status.ts';
import type { ListenAddress } from '#lib/config/config.ts';
import { answerTextOf, TsdbError } from '#lib/errors.ts';
import { tracedMethods } from '#lib/tracing/grpc.ts';
import type { Tracing } from '#lib/tracing/tracing.ts';
import { retryAfterSeconds } from '../http/limits.ts';
import { exportAnswer, statusMessage } from './answers.ts';
import { otlpBytesMax, withMessage } from './body.ts';
import type { OtlpSetup } from './http.ts';

/** How long calls may go on once the server stops. */
const stopGraceMillis = 10_000;

/** @throws {Error} of the system when the address cannot be had */
export function listenOtlp(
  { host, port }: ListenAddress,
  setup: OtlpSetup,
  bytesInFlightMax: number,
  tracing: Tracing | null = null,
): Promise<GrpcServer> {
  return listenGrpc({
    host,
    port,
    methods: tracedMethods([exportMethod(setup)], tracing),
    requestBytesMax: otlpBytesMax,
    stopGraceMillis,
    limits: { bytesInFlightMax },
  });
}

function exportMethod({ ingest, reader }: OtlpSetup): GrpcMethod {
  return {
    kind: 'unary',
    path: '/opentelemetry.proto.collector.metrics.v1.MetricsService/Export',
    encodings: ['gzip', 'deflate', 'zstd'],
    async handle(bytes, { encoding, signal }) {
      try {
        const encoded = { bytes, encoding, isJson: false };
        const refused = await withMessage(encoded, signal, (message) =>
          ingest.otlp(reader, message, ingest.begin(signal)),
        );
        return exportAnswer(refused);
      } catch (error) {
        throw withRetry(error);
      }
    },
  };
}

/** What passes says when to come again; a clock that is wrong passes, too. */
function withRetry(error: unknown): unknown {
  if (!(error instanceof TsdbError)) return error;
  const { status } = outcomeOf(error);
  const isPassing = error.httpStatus === 503 || error.httpStatus === 429;
  if (!isPassing) return error;
  const code = status === grpcStatus.resourceExhausted ? status : grpcStatus.unavailable;
  const message = answerTextOf(error);
  const details = statusMessage(code, message, retryAfterSeconds);
  return new GrpcStatusError(code, message, { cause: error }, details);
}
