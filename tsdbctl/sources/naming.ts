/** Errors of reading that name the file. */
import { type ErrorCode, TsdbError } from '#lib/errors.ts';

/**
 * Puts the name of a file before what is wrong with it.
 * @throws {TsdbError} what was that of `read`, and NOT_FOUND for a file that is not there
 */
export async function naming<T>(path: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    throw namedError(path, error);
  }
}

const namedCodes: ReadonlySet<ErrorCode> = new Set(['BAD_REQUEST', 'NOT_FOUND']);

/** How errors begin that name a file. */
const beginning = 'cannot read ';

/** What is thrown in the place of an error that does not name the file. */
export function namedError(path: string, error: unknown): unknown {
  if (error instanceof TsdbError && namedCodes.has(error.code)) {
    if (error.message.startsWith(beginning)) return error;
    return new TsdbError(error.code, `${beginning}${path}: ${error.message}`, { cause: error });
  }
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') {
    return new TsdbError('NOT_FOUND', `${beginning}${path}: file is missing`, { cause: error });
  }
  return error;
}
