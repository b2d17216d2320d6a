/**
 * OpenTSDB's listener (`coordinator.opentsdb.ingester`): commands of its telnet by TCP, as a stream (ingest/streams). When rows cannot
 * be written now a connection is not read until they can.
 */
import type { OpenTsdbConfig } from '#lib/config/config.ts';
import type { Clock } from '#lib/env/env.ts';
import { listenTcp, tcpLimitsDefault, type TcpServer } from '#lib/env/senders/tcp.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { Metrics } from '#lib/metrics.ts';
import { Turns } from '#lib/turns/turns.ts';
import type { Streams } from '../ingest/streams/streams.ts';
import { TextLines } from '../ingest/streams/text_lines.ts';
import { readCommand } from './commands.ts';

/** A longer command is none. */
const commandBytesMax = 8192;
/** About what it takes to read a command, in units of work (lib/turns/turns.ts). */
const commandUnits = 2_000;
/** Of lines that are handed over at once. */
const chunkCharacters = 32 * 1024;

interface CommandsOptions {
  readonly streams: Pick<Streams, 'refuse'>;
  readonly clock: Pick<Clock, 'monotonicMillis' | 'sleep'>;
  /** Of the process, for who asks. */
  readonly version: string;
}

export interface OpenTsdbListenerOptions extends CommandsOptions {
  readonly config: OpenTsdbConfig;
  readonly streams: Pick<Streams, 'write' | 'refuse'>;
  readonly log: Log;
}

/** It is there without a listener, too. */
export function openTsdbMetrics(metrics: Metrics, connectionCount: () => number): void {
  metrics.gauge(
    'tsdb_coordinator_opentsdb_connections',
    "Open connections of OpenTSDB's listener.",
    [],
    connectionCount,
  );
}

/** @throws {ListenError} when the address cannot be had */
export function listenOpenTsdb(options: OpenTsdbListenerOptions): Promise<TcpServer> {
  const { config, streams, clock, log } = options;
  const { host, port } = config.listenAddress;
  return listenTcp({
    host,
    port,
    limits: { ...tcpLimitsDefault, connectionsMax: config.connectionsMax },
    handler: (chunks, signal, answer) =>
      streams.write('opentsdb', linesOfCommands(chunks, options, signal, answer), signal),
    onError: (error) => log.warn({ err: error as Error }, 'a connection of OpenTSDB failed'),
    monotonicMillis: () => clock.monotonicMillis(),
  });
}

/**
 * Commands as lines of Prometheus' text.
 * @throws {TsdbError} BAD_REQUEST for requests of HTTP, which pages of others could have a browser send
 */
export async function* linesOfCommands(
  chunks: AsyncIterable<Uint8Array>,
  { streams, clock, version }: CommandsOptions,
  signal: AbortSignal,
  answer: (text: string) => void,
): AsyncGenerator<Uint8Array> {
  const work = Turns.of(clock).begin(signal, 'write');
  const text = new TextLines(commandBytesMax);
  const refuse = (problem: string): void => streams.refuse('opentsdb', 1, problem);
  let isFirst = true;
  const read = async function* (bytes: Uint8Array): AsyncGenerator<Uint8Array, boolean> {
    let lines = '';
    // One by one they would be a call of the system each.
    let replies = '';
    const reply = (): void => {
      if (replies !== '') answer(replies);
      replies = '';
    };
    for (const command of Buffer.from(bytes).toString().split(/\r?\n/)) {
      if (isFirst && / HTTP\/\d\.\d$/.test(command)) {
        throw badRequest('commands of OpenTSDB are taken here, HTTP is not');
      }
      isFirst = false;
      const { line, answer: told, problem, isEnd } = readCommand(command, version);
      if (problem !== '') refuse(problem);
      replies += told;
      if (replies.length >= chunkCharacters) reply();
      lines += line;
      if (isEnd || lines.length >= chunkCharacters) {
        if (lines !== '') yield Buffer.from(lines);
        lines = '';
      }
      if (isEnd) {
        reply();
        return true;
      }
      if (work.spend(commandUnits)) await work.pause();
    }
    reply();
    if (lines !== '') yield Buffer.from(lines);
    return false;
  };
  try {
    for await (const chunk of chunks) {
      const lines = text.add(chunk, () => refuse('a line is too long'));
      if (lines !== null && (yield* read(lines))) return;
    }
  } catch (error) {
    // The end of its last line may be missing.
    const isBrokenOff = error instanceof TsdbError && error.code === 'CANCELLED';
    if (isBrokenOff && text.end() !== null)
      refuse('the connection broke off in the middle of a line');
    throw error;
  }
  const last = text.end();
  if (last !== null) yield* read(last);
}
