/** Errors of rows of a batch, as M3's clients get them: a list of places and reasons. */
import { type ErrorCode, TsdbError } from '#lib/errors.ts';

/** What kind of error clients of the reference system distinguish. */
const typeOfCode: Partial<Record<ErrorCode, string>> = {
  BAD_REQUEST: 'BAD_REQUEST',
  NOT_FOUND: 'BAD_REQUEST',
  CONFLICT: 'BAD_REQUEST',
};
const flagsOfCode: Partial<Record<ErrorCode, number>> = {
  RESOURCE_EXHAUSTED: 1,
  DEADLINE_EXCEEDED: 2,
};

export function errorTypeOf({ code }: TsdbError): string {
  return typeOfCode[code] ?? 'INTERNAL_ERROR';
}

export function errorFlagsOf({ code }: TsdbError): number {
  return flagsOfCode[code] ?? 0;
}

export interface RowError {
  /** Of the row in its batch. */
  readonly index: number;
  readonly error: TsdbError;
}

export class RowErrors extends TsdbError {
  /** In the order of the batch. */
  readonly rows: readonly RowError[];

  constructor(errors: readonly RowError[], rowCount: number) {
    const rows = errors.toSorted((a, b) => a.index - b.index);
    const passing = rows.find(
      ({ error: { httpStatus } }) => httpStatus === 429 || httpStatus >= 500,
    );
    const first = passing ?? rows[0]!;
    super(
      // A sender comes again for what may pass; rows that were written are written once more then.
      passing?.error.code ?? 'BAD_REQUEST',
      `${rows.length} of ${rowCount} rows are not written: row ${first.index}: ${first.error.message}`,
    );
    this.rows = rows;
  }
}
