/** Tracing by OpenTelemetry's SDK, which only this file knows: spans go to a collector by OTLP over gRPC, in batches. */
import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type Context,
  ROOT_CONTEXT,
  type Span as ApiSpan,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-grpc';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { TracingConfig } from '../config/resolve/types.ts';
import type { Clock } from '../env/env.ts';
import { messageOf, type TsdbError } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Span, SpanOptions, Tracing } from './tracing.ts';

/** Spans that wait for their batch; more are dropped. */
const waitingMax = 8_192;
const batchMax = 512;
const batchMillis = 2_000;
const exportMillisMax = 10_000;
/** For the last spans, when the process ends. */
const stopMillisMax = 2_000;

const kinds = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  internal: SpanKind.INTERNAL,
} as const;

/** In which span something is done. What goes on when that is over, as a loop that a request has begun, is in none. */
interface Current {
  readonly context: Context;
  isOver: boolean;
}

export class OpenTelemetry implements Tracing {
  readonly #provider: TracerProvider;
  readonly #tracer: ReturnType<TracerProvider['getTracer']>;
  readonly #current = new AsyncLocalStorage<Current>();
  readonly #clock: Pick<Clock, 'sleep'>;
  readonly #log: Log;

  /** @param version of the product */
  constructor(
    config: TracingConfig,
    version: string,
    { clock, log }: { readonly clock: Pick<Clock, 'sleep'>; readonly log: Log },
  ) {
    this.#clock = clock;
    this.#log = log;
    const { endpoint, isInsecure, serviceName, attributes, samplingFraction } = config;
    const exporter = new OTLPTraceExporter({
      url: `${isInsecure ? 'http' : 'https'}://${endpoint}`,
      timeoutMillis: exportMillisMax,
    });
    this.#provider = new TracerProvider({
      resource: resourceFromAttributes({
        'service.name': serviceName,
        'service.version': version,
        ...attributes,
      }),
      sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(samplingFraction) }),
      spanProcessors: [
        new BatchSpanProcessor({
          exporter,
          maxQueueSize: waitingMax,
          maxExportBatchSize: batchMax,
          scheduledDelayMillis: batchMillis,
          exportTimeoutMillis: exportMillisMax,
        }),
      ],
    });
    this.#tracer = this.#provider.getTracer('tsdb', version);
  }

  run<T>(name: string, options: SpanOptions, work: (span: Span) => Promise<T>): Promise<T> {
    const { kind, parent, attributes = {} } = options;
    // What comes from outside is no part of what is done here, wherever that was when it came.
    const outer = kind === 'server' ? null : this.#running();
    const context = contextOf(parent) ?? outer ?? ROOT_CONTEXT;
    const span = this.#tracer.startSpan(name, { kind: kinds[kind], attributes }, context);
    const current: Current = { context: trace.setSpan(context, span), isOver: false };
    return this.#current.run(current, () => inSpan(span, current, work));
  }

  #running(): Context | null {
    const current = this.#current.getStore();
    return current === undefined || current.isOver ? null : current.context;
  }

  traceparent(): string | undefined {
    const context = this.#running();
    const span = context === null ? undefined : trace.getSpanContext(context);
    if (span === undefined) return undefined;
    const flags = span.traceFlags.toString(16).padStart(2, '0');
    return `00-${span.traceId}-${span.spanId}-${flags}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // A collector that is away is no reason to end late, or otherwise.
    const over = new AbortController();
    const late = this.#clock.sleep(stopMillisMax, over.signal).catch(() => {});
    const sent = this.#provider.shutdown().catch((error: unknown) => {
      this.#log.warn({ error: messageOf(error) }, 'the last spans are not sent');
    });
    await Promise.race([sent, late]);
    over.abort();
  }
}

async function inSpan<T>(
  span: ApiSpan,
  current: Current,
  work: (span: Span) => Promise<T>,
): Promise<T> {
  const fail = (reason: string): void => {
    span.setStatus({ code: SpanStatusCode.ERROR, message: reason });
  };
  try {
    return await work({ set: (name, value) => void span.setAttribute(name, value), fail });
  } catch (error) {
    // Its text may have tags and values in it. The bundle of the node has a class of its own of the same name.
    const isOurs = (error as Error | null)?.name === 'TsdbError';
    fail(isOurs ? (error as TsdbError).code : 'INTERNAL');
    throw error;
  } finally {
    current.isOver = true;
    span.end();
  }
}

/** Null for what is no header of version 00. */
function contextOf(traceparent: string | undefined): Context | null {
  const match = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/.exec(traceparent ?? '');
  if (match === null) return null;
  const [, traceId, spanId, flags] = match as unknown as [string, string, string, string];
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return null;
  const traceFlags = Number.parseInt(flags, 16) & TraceFlags.SAMPLED;
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true });
}
