/** Whole numbers in requests. */
import { badRequest, shownText } from '#lib/errors.ts';

/** @throws {TsdbError} BAD_REQUEST */
export function wholeNumber(text: string, name: string): number {
  if (!/^\d{1,15}$/.test(text)) throw badRequest(`${name}: not a whole number: ${shownText(text)}`);
  return Number(text);
}
