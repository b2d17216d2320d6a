/** Which fields of a schema are one number: each can be read as a series of its own. */
import { badRequest, shownText } from '#lib/errors.ts';
import { typedDepthMax } from '../codec/layout.ts';
import type { MessageType } from './schema.ts';

export interface NumericField {
  /** Names with dots between them: 'latency.p99'. */
  readonly path: string;
  /** Numbers of the messages around it, then its own. */
  readonly numbers: readonly number[];
}

/** Fields of a schema with those of messages within, each as often as there are ways to it: a query has a column of each. */
export const fieldPathsMax = 10_000;
/** Longest path: it is the value of a label. */
export const fieldPathCharsMax = 1_024;

/**
 * Fields that are one number, booleans and enums too, of the message and those within; of a message within itself not
 * those of the inner one.
 * @throws {TsdbError} BAD_REQUEST when there are too many ways to fields, or one is too long
 */
export function numericFieldsOf(type: MessageType): readonly NumericField[] {
  const fields: NumericField[] = [];
  let pathCount = 0;
  const walk = (
    within: MessageType,
    prefix: string,
    numbers: readonly number[],
    around: readonly MessageType[],
  ): void => {
    for (const field of within.fields) {
      const { kind, rule, message } = field;
      if (rule === 'repeated' || rule === 'map' || kind === 'string' || kind === 'bytes') continue;
      const own = [...numbers, field.number];
      const path = prefix + field.name;
      if (kind === 'message' && (around.includes(message!) || own.length > typedDepthMax)) continue;
      pathCount += 1;
      if (pathCount > fieldPathsMax) {
        throw refusedType(
          type,
          `more than ${fieldPathsMax} fields, those of messages within counted`,
        );
      }
      if (path.length > fieldPathCharsMax) {
        const shown = shownText(path);
        throw refusedType(
          type,
          `the path of a field is longer than ${fieldPathCharsMax}: ${shown}`,
        );
      }
      if (kind === 'message') walk(message!, `${path}.`, own, [...around, message!]);
      else fields.push({ path, numbers: own });
    }
  };
  walk(type, '', [], [type]);
  return fields;
}

function refusedType({ name }: MessageType, reason: string): Error {
  return badRequest(`cannot take schema: ${name}: ${reason}`);
}
