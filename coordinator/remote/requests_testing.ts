/** Bodies of remote read, for tests. */
import { encodeSnappy } from '#engine/write_decoder/snappy.ts';
import { MessageWriter } from '#engine/prometheus_messages/message_writer.ts';

export interface AskedQuery {
  readonly startMillis: number;
  readonly endMillis: number;
  readonly matchers: readonly (readonly [type: number, name: string, value: string])[];
  /** Hinted, of a range of five minutes where nothing else is said. */
  readonly function?: string;
  /** Of the selector; 0 around a subquery. */
  readonly rangeMillis?: number;
}

const utf8 = new TextEncoder();

/** @param types of answers that are accepted, by their numbers */
export function readRequest(queries: readonly AskedQuery[], types: readonly number[]): Uint8Array {
  const request = new MessageWriter();
  for (const { startMillis, endMillis, matchers, function: hinted, rangeMillis } of queries) {
    const query = new MessageWriter();
    query.int64Field(1, startMillis);
    query.int64Field(2, endMillis);
    for (const [type, name, value] of matchers) {
      const matcher = new MessageWriter();
      matcher.int64Field(1, type);
      matcher.bytesField(2, utf8.encode(name));
      matcher.bytesField(3, utf8.encode(value));
      query.bytesField(3, matcher.finish());
    }
    if (hinted !== undefined) {
      const hints = new MessageWriter();
      hints.bytesField(2, utf8.encode(hinted));
      hints.int64Field(7, rangeMillis ?? 300_000);
      query.bytesField(4, hints.finish());
    }
    request.bytesField(1, query.finish());
  }
  if (types.length > 0) request.bytesField(2, Uint8Array.from(types));
  return encodeSnappy(request.finish());
}
