/** Texts with marks in them that stand for something else. */
import { badRequest, shownText } from '#lib/errors.ts';

/** Longest text that is filled in. */
const filledLengthMax = 65_536;

/**
 * The text with `value` for each `mark`.
 * @throws {TsdbError} BAD_REQUEST when it becomes too long
 */
export function fillIn(text: string, mark: string, value: string): string {
  const parts = text.split(mark);
  if (text.length + (parts.length - 1) * value.length <= filledLengthMax) return parts.join(value);
  throw badRequest(
    `cannot fill in ${mark}: the text becomes longer than ${filledLengthMax} characters: ${shownText(text)}`,
  );
}
