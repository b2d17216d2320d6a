/** Errors of queries: the user's text is wrong, or the data do not allow the operation. */
import { TsdbError } from '#lib/errors.ts';
import { lineAndColumn } from './position.ts';

/**
 * A query that cannot be answered. `kind` is what Prometheus' HTTP API calls the error type:
 * `bad_data` for a text that does not parse, `execution` for an operation that the data forbid or a
 * limit that was reached.
 */
export class PromqlError extends TsdbError {
  readonly kind: 'bad_data' | 'execution';

  constructor(kind: 'bad_data' | 'execution', message: string, options?: ErrorOptions) {
    super('BAD_REQUEST', message, options);
    this.kind = kind;
  }
}

/** A text that does not parse; the message begins with line and column, both from 1. */
export function parseError(query: string, offset: number, message: string): PromqlError {
  return new PromqlError('bad_data', `${lineAndColumn(query, offset)}: parse error: ${message}`);
}

export function executionError(message: string): PromqlError {
  return new PromqlError('execution', message);
}
