/**
 * Carbon's listener (`coordinator.carbon.ingester`): lines of plaintext by TCP and UDP, and pickles by TCP, as streams
 * (ingest/streams). When rows cannot be written now a connection is not read until they can, and datagrams wait as long as there
 * is room for them. At a stop what has come is still written, for some seconds.
 */
import type { CarbonConfig, ListenAddress } from '#lib/config/config.ts';
import type { Clock } from '#lib/env/env.ts';
import { listenTcp, tcpLimitsDefault, type TcpServer } from '#lib/env/senders/tcp.ts';
import { listenUdp } from '#lib/env/senders/udp.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { CounterMetric, Metrics } from '#lib/metrics.ts';
import type { StreamFormat } from '../ingest/line_formats.ts';
import type { Streams } from '../ingest/streams/streams.ts';
import { Datagrams } from '../ingest/streams/datagrams.ts';
import { Pickles } from './pickle_frames.ts';

/** What the system may keep of datagrams. */
const receiveBufferBytes: number = 8 << 20;

export interface CarbonListenerOptions {
  readonly config: CarbonConfig;
  readonly streams: Pick<Streams, 'write' | 'refuse'>;
  readonly clock: Pick<Clock, 'monotonicMillis' | 'sleep'>;
  readonly log: Log;
  readonly metrics: CarbonMetrics;
}

export interface CarbonMetrics {
  readonly droppedDatagrams: CounterMetric;
}

/** They are there without a listener, too. */
export function carbonMetrics(metrics: Metrics, connectionCount: () => number): CarbonMetrics {
  metrics.gauge(
    'tsdb_coordinator_carbon_connections',
    "Open connections of Carbon's listener.",
    [],
    connectionCount,
  );
  return {
    droppedDatagrams: metrics.counter(
      'tsdb_coordinator_carbon_dropped_datagrams_total',
      'Datagrams of Carbon for which there was no room while rows could not be written.',
      [],
    ),
  };
}

export interface CarbonListener extends AsyncDisposable {
  readonly connectionCount: number;
  readonly tcpPort: number;
  /** Null when it is not open. */
  readonly picklePort: number | null;
  /** Null when it is not open. */
  readonly udpPort: number | null;
}

type Write = (chunks: AsyncIterable<Uint8Array>, signal: AbortSignal) => Promise<void>;

/** @throws {ListenError} when an address cannot be had */
export async function listenCarbon(options: CarbonListenerOptions): Promise<CarbonListener> {
  const { config, streams, clock } = options;
  const format: StreamFormat = config.cleansUp ? 'carbon_cleaned_up' : 'carbon';
  const write: Write = (chunks, signal) => streams.write(format, chunks, signal);
  const pickled = new Pickles(clock, (count, problem) => streams.refuse(format, count, problem));
  await using open = new AsyncDisposableStack();
  const tcp = open.use(await listenSenders(options, config.listenAddress, write));
  const { pickleListenAddress } = config;
  const pickles =
    pickleListenAddress === null
      ? null
      : open.use(
          await listenSenders(options, pickleListenAddress, (chunks, signal) =>
            write(pickled.lines(chunks, signal), signal),
          ),
        );
  const udp = config.udpEnabled ? open.use(await listenDatagrams(options, tcp.port, write)) : null;
  const all = open.move();
  return {
    get connectionCount() {
      return tcp.connectionCount + (pickles?.connectionCount ?? 0);
    },
    tcpPort: tcp.port,
    picklePort: pickles?.port ?? null,
    udpPort: udp?.port ?? null,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

function listenSenders(
  { config, clock, log }: CarbonListenerOptions,
  { host, port }: ListenAddress,
  handler: Write,
): Promise<TcpServer> {
  return listenTcp({
    host,
    port,
    limits: { ...tcpLimitsDefault, connectionsMax: config.connectionsMax },
    handler,
    onError: (error) => log.warn({ err: error as Error }, 'a connection of Carbon failed'),
    monotonicMillis: () => clock.monotonicMillis(),
  });
}

async function listenDatagrams(
  { config, clock, log, metrics }: CarbonListenerOptions,
  port: number,
  write: Write,
): Promise<AsyncDisposable & { readonly port: number }> {
  const datagrams = new Datagrams(() => metrics.droppedDatagrams.increase(1));
  const udp = await listenUdp({
    host: config.listenAddress.host,
    port,
    receiveBufferBytes,
    onMessage: (message) => datagrams.add(message),
    onError: (error) => log.error({ err: error as Error }, 'the socket of Carbon failed'),
  });
  const stop = new AbortController();
  const writing = write(datagrams.texts(), stop.signal).catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
  });
  return {
    port: udp.port,
    [Symbol.asyncDispose]: async () => {
      await udp[Symbol.asyncDispose]();
      datagrams.end();
      const isWritten = new AbortController();

      const late = clock.sleep(tcpLimitsDefault.stopMillisMax, isWritten.signal).then(
        () => stop.abort(new TsdbError('UNAVAILABLE', 'the server stops')),
        () => {},
      );
      await writing;
      isWritten.abort();
      await late;
      datagrams.drop();
    },
  };
}
