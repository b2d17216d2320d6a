/**
 * statsd's listener (`coordinator.statsd.ingester`): lines by UDP and TCP become metrics that are kept here, and are written at
 * each flush. Nobody is answered, so what is bad is counted. Reading waits for no storage: while rows cannot be written, the
 * flush that is written goes on, and what comes is kept for the next one.
 */
import type { ListenAddress, StatsdConfig } from '#lib/config/config.ts';
import type { Env } from '#lib/env/env.ts';
import { listenTcp, tcpLimitsDefault, type TcpServer } from '#lib/env/senders/tcp.ts';
import { listenUdp, type UdpServer } from '#lib/env/senders/udp.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { Turns, type Work } from '#lib/turns/turns.ts';
import type { Streams } from '../ingest/streams/streams.ts';
import { Flushes } from './flushes.ts';
import { lineBytesMax, LineReader } from './lines/reader.ts';
import { mappingOf } from './mapping/file.ts';
import type { Sharing, SharingChange } from './receivers/sharing.ts';
import { type SharingSetup, startSharing, type StartedSharing } from './receivers/start.ts';
import { Packets } from './packets.ts';
import { readInTurns } from './read_in_turns.ts';
import type { StatsdMetrics } from './series/metrics.ts';
import { GraphiteSeries } from './series/graphite.ts';
import { PrometheusSeries } from './series/prometheus.ts';
import type { SeriesPart, StatsdSeries } from './series/series.ts';
import { TextLines } from '../ingest/streams/text_lines.ts';

/** What the system may keep of datagrams. */
const receiveBufferBytes: number = 8 << 20;
/** What looking at a series takes, in units of work. */
const seriesUnits = 30;
/** Counts become metrics so long after a packet at most. */
const tellMillis = 1000;

export interface StatsdListenerOptions {
  readonly config: StatsdConfig;
  readonly streams: Pick<Streams, 'write'>;
  readonly env: Env;
  readonly log: Log;
  readonly metrics: StatsdMetrics;
  /** Where the configuration says that several coordinators share series. */
  readonly sharing: Pick<SharingSetup, 'kv' | 'cluster' | 'times'>;
}

export interface StatsdListener extends AsyncDisposable {
  readonly connectionCount: number;
  readonly seriesCount: number;
  /** Coordinators that share series; 0 when this one keeps all. */
  readonly memberCount: number;
  /** Of lines for others. */
  readonly waitingBytes: number;
  /** Null when it is not open. */
  readonly tcpPort: number | null;
  /** Null when it is not open. */
  readonly udpPort: number | null;
}

/** @throws {TsdbError} BAD_REQUEST naming field, reason and value of a mapping that is none */
export function seriesOf({
  form,
  seriesMax,
  flushIntervalMillis,
}: Pick<StatsdConfig, 'form' | 'seriesMax' | 'flushIntervalMillis'>): StatsdSeries<SeriesPart> {
  return form.type === 'graphite'
    ? new GraphiteSeries(form, seriesMax, flushIntervalMillis)
    : new PrometheusSeries(
        mappingOf(form.mapping, 'coordinator.statsd.ingester.mapping'),
        form.labels,
        seriesMax,
      );
}

/**
 * @throws {ListenError} when an address cannot be had; {TsdbError} as `seriesOf`; the signal's reason when it aborts before it is
 * known who shares series
 */
export async function listenStatsd(
  options: StatsdListenerOptions,
  signal: AbortSignal,
): Promise<StatsdListener> {
  const { config, env } = options;
  const { clock } = env;
  const reception = new Reception(options);
  await using open = new AsyncDisposableStack();
  const shared = config.sharing === null ? null : await share(options, reception, signal);
  const stopWaiting = new AbortController();
  if (shared !== null) open.defer(() => shared.leave(stopWaiting.signal));
  const { host, port } = config.listenAddress;
  const tcp = config.tcpEnabled
    ? open.use(await listenStreams(options, config.listenAddress, reception))
    : null;
  const packets = open.use(reception.packets());
  const udp = config.udpEnabled
    ? open.use(await listenPackets(options, { host, port: tcp?.port ?? port }, reception, packets))
    : null;
  const all = open.move();
  const stop = new AbortController();
  const end = new AbortController();
  const flushing = reception.flushes.run(stop.signal, end.signal);
  return {
    get connectionCount() {
      return tcp?.connectionCount ?? 0;
    },
    get seriesCount() {
      return reception.series.seriesCount;
    },
    get memberCount() {
      return shared?.sharing.memberCount ?? 0;
    },
    get waitingBytes() {
      return shared?.sharing.waitingBytes ?? 0;
    },
    tcpPort: tcp?.port ?? null,
    udpPort: udp?.port ?? null,
    [Symbol.asyncDispose]: async () => {
      const isWritten = new AbortController();
      const late = clock.sleep(tcpLimitsDefault.stopMillisMax, isWritten.signal).then(
        () => {
          const reason = new TsdbError('UNAVAILABLE', 'the server stops');
          stopWaiting.abort(reason);
          end.abort(reason);
        },
        () => {},
      );
      await all.disposeAsync();
      stop.abort();
      reception.stop();
      await flushing;
      isWritten.abort();
      await late;
    },
  };
}

async function share(
  { config, env, log, metrics, sharing }: StatsdListenerOptions,
  reception: Reception,
  signal: AbortSignal,
): Promise<StartedSharing> {
  const setup = {
    ...sharing,
    config: config.sharing!,
    env,
    log,
    metrics: metrics.sharing,
    flushIntervalMillis: config.flushIntervalMillis,
  };
  const of = {
    onChange: (change: SharingChange) => reception.noteChange(change),
    onLines: (lines: Uint8Array) => reception.takeForwarded(lines),
  };
  const shared = await startSharing(setup, of, signal);
  reception.share(shared.sharing);
  return shared;
}

/** Where lines go. */
class Reception {
  readonly series: StatsdSeries<SeriesPart>;
  readonly flushes: Flushes;
  readonly #reader: LineReader;
  readonly #metrics: StatsdMetrics;
  readonly #clock: Env['clock'];
  readonly #work: Work;
  #sharing: Sharing | null = null;
  #isTelling = false;
  readonly #stop = new AbortController();

  constructor({ config, streams, env, metrics }: StatsdListenerOptions) {
    const { clock, random } = env;
    this.#metrics = metrics;
    this.#clock = clock;
    // What came is taken also when all stops.
    this.#work = Turns.of(clock).begin(new AbortController().signal, 'write');
    this.series = seriesOf(config);
    const reader = new LineReader(this.series, config.tags, random.u32());
    this.#reader = reader;
    this.flushes = new Flushes({
      series: this.series,
      format: config.form.type === 'graphite' ? 'statsd_graphite' : 'statsd',
      intervalMillis: config.flushIntervalMillis,
      streams,
      clock,
      metrics,
      onForgotten: () => reader.forget(),
      atBoundary: config.sharing === null ? null : (millis) => this.#passBoundary(millis),
    });
  }

  share(sharing: Sharing): void {
    this.#sharing = sharing;
    this.series.owners = sharing;
  }

  /** Other coordinators keep series from now on. */
  noteChange({ isUnsure, fromMillis }: SharingChange): void {
    this.#reader.forget();
    this.series.beginMillisMin = fromMillis + 1;
    if (isUnsure) this.series.leaveAll(fromMillis);
  }

  /** Lines that came by another coordinator, which has counted them. */
  async takeForwarded(lines: Uint8Array): Promise<void> {
    const { series } = this;
    await readInTurns(lines, this.#work, (some) => {
      series.nowMillis = this.flushes.nowMillis;
      series.isForwarded = true;
      this.#reader.read(some);
      series.isForwarded = false;
    });
  }

  async #passBoundary(boundaryMillis: number): Promise<void> {
    const change = (await this.#sharing?.atBoundary(boundaryMillis)) ?? null;
    if (change === null) return;
    await this.series.leave(change.fromMillis, () =>
      this.#work.spend(seriesUnits) ? this.#work.pause() : null,
    );
  }

  /** A part of a stream. */
  take(lines: Uint8Array): void {
    this.notePacket();
    this.#read(lines);
  }

  notePacket(): void {
    this.series.counts.packets++;
    if (!this.#isTelling) void this.#tell();
  }

  #read(lines: Uint8Array): void {
    this.series.nowMillis = this.flushes.nowMillis;
    this.#reader.read(lines);
  }

  /** Of UDP, until they are disposed of. */
  packets(): Packets {
    const { droppedPackets } = this.#metrics;
    return new Packets(
      this.#clock,
      (lines) => this.#read(lines),
      () => droppedPackets.increase(1),
    );
  }

  /** The last counts are told by the last flush. */
  stop(): void {
    this.#stop.abort();
  }

  async #tell(): Promise<void> {
    this.#isTelling = true;
    await this.#clock.sleep(tellMillis, this.#stop.signal).catch(() => {});
    this.#isTelling = false;
    this.series.counts.tell(this.#metrics);
  }

  noteMalformed(): void {
    this.series.noteLine();
    this.series.noteProblem('malformed_line');
  }
}

function listenStreams(
  { config, env: { clock }, log }: StatsdListenerOptions,
  { host, port }: ListenAddress,
  reception: Reception,
): Promise<TcpServer> {
  return listenTcp({
    host,
    port,
    limits: { ...tcpLimitsDefault, connectionsMax: config.connectionsMax },
    handler: async (chunks, signal) => {
      const text = new TextLines(lineBytesMax);
      const work = Turns.of(clock).begin(signal, 'write');
      const onLong = (): void => reception.noteMalformed();
      try {
        for await (const chunk of chunks) {
          const lines = text.add(chunk, onLong);
          if (lines !== null) await readInTurns(lines, work, (some) => reception.take(some));
        }
      } catch (error) {
        // The end of its last line may be missing.
        if (text.end() !== null) reception.noteMalformed();
        throw error;
      }
      const last = text.end();
      if (last !== null) reception.take(last);
    },
    onError: (error) => log.warn({ err: error as Error }, 'a connection of statsd failed'),
    monotonicMillis: () => clock.monotonicMillis(),
  });
}

function listenPackets(
  { log }: StatsdListenerOptions,
  { host, port }: ListenAddress,
  reception: Reception,
  packets: Packets,
): Promise<UdpServer> {
  return listenUdp({
    host,
    port,
    receiveBufferBytes,
    onMessage: (message) => {
      reception.notePacket();
      packets.add(message);
    },
    onError: (error) => log.error({ err: error as Error }, 'the socket of statsd failed'),
  });
}
