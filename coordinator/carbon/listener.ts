/**
 * Carbon's listener (`coordinator.carbon.ingester`): lines of plaintext by TCP and UDP. Nobody is answered, so bad lines are counted
 * and now and then one is told in the log; when rows cannot be written now a connection is not read until they can, and datagrams
 * wait as long as there is room for them.
 */
import type { CarbonConfig } from '#lib/config/config.ts';
import type { Clock } from '#lib/env/env.ts';
import { listenTcp, tcpLimitsDefault, type TcpServer } from '#lib/env/senders/tcp.ts';
import { listenUdp, type UdpServer } from '#lib/env/senders/udp.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { CounterMetric, Metrics } from '#lib/metrics.ts';
import type { Ingest } from '../ingest/ingest.ts';
import { Datagrams } from './datagrams.ts';
import { RefusedLines } from './refused_lines.ts';

/** What the system may keep of datagrams. */
const receiveBufferBytes: number = 8 << 20;

export interface CarbonListenerOptions {
  readonly config: CarbonConfig;
  readonly ingest: Pick<Ingest, 'begin' | 'stream'>;
  readonly clock: Pick<Clock, 'monotonicMillis'>;
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
  readonly udpPort: number | null;
}

/** @throws {ListenError} when an address cannot be had */
export async function listenCarbon(options: CarbonListenerOptions): Promise<CarbonListener> {
  const { config, ingest, clock, log } = options;
  const { host, port } = config.listenAddress;
  const format = config.cleansUp ? 'carbon_cleaned_up' : 'carbon';
  const refused = new RefusedLines('carbon', clock, log);
  const write = (chunks: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> =>
    ingest.stream(
      format,
      chunks,
      (count, problems) => refused.note(count, problems),
      ingest.begin(signal),
    );
  const tcp = await listenTcp({
    host,
    port,
    limits: { ...tcpLimitsDefault, connectionsMax: config.connectionsMax },
    handler: write,
    onError: (error) => log.error({ err: error as Error }, 'a connection of Carbon failed'),
    monotonicMillis: () => clock.monotonicMillis(),
  });
  if (!config.udpEnabled) {
    return {
      get connectionCount() {
        return tcp.connectionCount;
      },
      tcpPort: tcp.port,
      udpPort: null,
      [Symbol.asyncDispose]: () => tcp[Symbol.asyncDispose](),
    };
  }
  try {
    return await withDatagrams(options, tcp, write);
  } catch (error) {
    await tcp[Symbol.asyncDispose]();
    throw error;
  }
}

async function withDatagrams(
  { config, log, metrics }: CarbonListenerOptions,
  tcp: TcpServer,
  write: (chunks: AsyncIterable<Uint8Array>, signal: AbortSignal) => Promise<void>,
): Promise<CarbonListener> {
  const datagrams = new Datagrams();
  const udp: UdpServer = await listenUdp({
    host: config.listenAddress.host,
    port: tcp.port,
    receiveBufferBytes,
    onMessage: (message) => datagrams.add(message),
    onError: (error) => log.error({ err: error as Error }, 'the socket of Carbon failed'),
  });
  datagrams.onDropped = () => metrics.droppedDatagrams.increase(1);
  const stop = new AbortController();
  const writing = write(datagrams.texts(stop.signal), stop.signal).catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
  });
  return {
    get connectionCount() {
      return tcp.connectionCount;
    },
    tcpPort: tcp.port,
    udpPort: udp.port,
    [Symbol.asyncDispose]: async () => {
      await Promise.all([tcp[Symbol.asyncDispose](), udp[Symbol.asyncDispose]()]);
      stop.abort(new TsdbError('UNAVAILABLE', 'the server stops'));
      await writing;
    },
  };
}
