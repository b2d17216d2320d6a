/**
 * Messages that go-carbon and carbonapi answer, in version 2 of their protobuf: series as `MultiFetchResponse`, paths as
 * `GlobResponse`.
 */
import { MessageWriter } from '#engine/prometheus_messages/message_writer.ts';
import type { FoundNode } from '../storage/finder.ts';
import type { Points } from './points.ts';

export const carbonapiContentType = 'application/x-protobuf';

/** One message, a series after the other. */
export function* fetchResponse(
  names: readonly string[],
  points: readonly Points[],
): Iterable<Uint8Array> {
  for (const [index, name] of names.entries()) {
    const series = seriesMessage(name, points[index]!);
    const head = new MessageWriter(16);
    head.bytesHead(1, series.length);
    yield head.finish();
    yield series;
  }
}

function seriesMessage(
  name: string,
  { values, present, startSeconds, stepSeconds }: Points,
): Uint8Array {
  const writer = new MessageWriter(64 + 9 * values.length);
  writer.bytesField(1, Buffer.from(name));
  writer.int64Field(2, startSeconds);
  writer.int64Field(3, startSeconds + stepSeconds * values.length);
  writer.int64Field(4, stepSeconds);
  const numbers = Buffer.alloc(8 * values.length);
  const isAbsent = new Uint8Array(values.length);
  for (let row = 0; row < values.length; row++) {
    if (present[row] === 1) numbers.writeDoubleLE(values[row]!, 8 * row);
    else isAbsent[row] = 1;
  }
  writer.bytesField(5, numbers);
  writer.bytesField(6, isAbsent);
  return writer.finish();
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
