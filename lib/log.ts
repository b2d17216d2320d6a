/** Structured logs: the one place that knows pino. */
import { isatty } from 'node:tty';
import { pino } from 'pino';
import { logText, terminalJson } from './log_text.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** JSON lines, or lines for people; null: the latter when the standard output is a terminal. */
export type LogEncoding = 'json' | 'console' | null;

export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  /** A log whose records carry these fields too. */
  child(fields: object): Log;
}

const standardOutput = 1;
/** Of lines that cannot be written now; more are dropped. */
const keptBytesMax = 1 << 20;

/** How records are written; names of fields are those of JSON. */
export interface LogOptions {
  readonly level: LogLevel;
  readonly encoding: LogEncoding;
  readonly messageKey: string;
  readonly levelKey: string;
  readonly timeKey: string;
  readonly hasCapitalLevels: boolean;
  /** RFC 3339, or Unix seconds with a fraction, milliseconds or nanoseconds. */
  readonly time: 'iso8601' | 'epoch' | 'millis' | 'nanos';
}

export const plainLog: LogOptions = {
  level: 'info',
  encoding: null,
  messageKey: 'msg',
  levelKey: 'level',
  timeKey: 'time',
  hasCapitalLevels: false,
  time: 'iso8601',
};

/** Lines on standard output. */
export function openLog(options: LogOptions, fields: object = {}): Log {
  const { level, encoding } = options;
  const output = pino.destination({ dest: standardOutput, sync: true, maxLength: keptBytesMax });
  // A full disk under the log ends no process: what is not written is kept, and comes when there is room.
  output.on('error', () => {});
  const isText = encoding === null ? isatty(standardOutput) : encoding === 'console';
  return pino(
    {
      level,
      base: fields,
      // Lines for people are made of records that are as all are.
      ...pinoForm(isText ? plainLog : options),
    },
    // JSON too comes to terminals, by whoever looks at it later.
    { write: (line: string) => output.write(isText ? logText(line) : terminalJson(line)) },
  ) as unknown as Log;
}

function pinoForm({ messageKey, levelKey, timeKey, hasCapitalLevels, time }: LogOptions): object {
  return {
    messageKey,
    timestamp: () => `,${JSON.stringify(timeKey)}:${timeJson(time)}`,
    formatters: {
      level: (label: string) => ({
        [levelKey]: hasCapitalLevels ? label.toUpperCase() : label,
      }),
    },
  };
}

function timeJson(time: LogOptions['time']): string {
  const { epochTime, isoTime } = pino.stdTimeFunctions;
  // They come with a name: `,"time":`.
  if (time === 'iso8601') return isoTime().slice(8);
  const millis = epochTime().slice(8);
  if (time === 'epoch') return `${millis.slice(0, -3)}.${millis.slice(-3)}`;
  return time === 'millis' ? millis : `${millis}000000`;
}

/** For tests. */
export const silentLog: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLog,
};
