/**
 * Messages that go-carbon and carbonapi answer, in version 2 of their protobuf: series as `MultiFetchResponse`, paths as
 * `GlobResponse`.
 */
import { MessageWriter } from '#engine/prometheus_messages/message_writer.ts';
import type { FoundNode } from '../storage/finder.ts';
import type { Points } from './points.ts';

export const carbonapiContentType = 'application/x-protobuf';

/** Rows that are written in one go. */
const rowsAtOnce = 8192;

/** One message, a series after the other. */
export function* fetchResponse(
  names: readonly string[],
  points: readonly Points[],
): Iterable<Uint8Array> {
  for (const [index, name] of names.entries()) {
    yield* seriesMessage(name, points[index]!);
  }
}

/** As a field of the whole: its length is known before its rows are written. */
function* seriesMessage(
  name: string,
  { values, present, startSeconds, stepSeconds }: Points,
): Iterable<Uint8Array> {
  const { length } = values;
  const fields = new MessageWriter(64);
  fields.bytesField(1, Buffer.from(name));
  fields.int64Field(2, startSeconds);
  fields.int64Field(3, startSeconds + stepSeconds * length);
  fields.int64Field(4, stepSeconds);
  fields.bytesHead(5, 8 * length);
  const absentHead = new MessageWriter(16);
  absentHead.bytesHead(6, length);
  const head = new MessageWriter(16);
  head.bytesHead(1, fields.byteLength + 8 * length + absentHead.byteLength + length);
  yield head.finish();
  yield fields.finish();
  for (let first = 0; first < length; first += rowsAtOnce) {
    const past = Math.min(length, first + rowsAtOnce);
    const numbers = Buffer.alloc(8 * (past - first));
    for (let row = first; row < past; row++) {
      if (present[row] === 1) numbers.writeDoubleLE(values[row]!, 8 * (row - first));
    }
    yield numbers;
  }
  yield absentHead.finish();
  for (let first = 0; first < length; first += rowsAtOnce) {
    yield present.subarray(first, first + rowsAtOnce).map((isThere) => 1 - isThere);
  }
}

/** @param pattern that the paths were found by */
export function* globResponse(pattern: string, found: readonly FoundNode[]): Iterable<Uint8Array> {
  const head = new MessageWriter();
  head.bytesField(1, Buffer.from(pattern));
  yield head.finish();
  for (const { path, isLeaf } of found) {
    const match = new MessageWriter(64);
    match.bytesField(1, Buffer.from(path));
    if (isLeaf) match.int64Field(2, 1);
    const writer = new MessageWriter(64);
    writer.bytesField(2, match.finish());
    yield writer.finish();
  }
}
