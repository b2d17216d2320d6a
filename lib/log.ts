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

/** Lines on standard output. */
export function openLog(level: LogLevel, encoding: LogEncoding, fields: object = {}): Log {
  const output = pino.destination({ dest: standardOutput, sync: true, maxLength: keptBytesMax });
  // A full disk under the log ends no process: what is not written is kept, and comes when there is room.
  output.on('error', () => {});
  const isText = encoding === null ? isatty(standardOutput) : encoding === 'console';
  return pino(
    {
      level,
      base: fields,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    // JSON too comes to terminals, by whoever looks at it later.
    { write: (line: string) => output.write(isText ? logText(line) : terminalJson(line)) },
  ) as unknown as Log;
}

/** For tests. */
export const silentLog: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLog,
};
