/** What is asked of a database that answers remote read, and what is taken of its answers. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { decodeReadRequest } from '#coordinator/remote/messages.ts';
import { MessageWriter, writeLabels } from '#engine/prometheus_messages/message_writer.ts';
import { decodeSnappy, encodeSnappy } from '#engine/write_decoder/snappy.ts';
import { realEnv } from '#lib/env/real.ts';
import { seriesOfResponse } from './read_response.ts';
import { remoteSource } from './source.ts';

const { signal } = new AbortController();
const { clock } = realEnv;

test('a slice has the rows of its last millisecond, and none of the next, whatever the end is to who answers', async () => {
  const rowsMillis = [999, 1000, 1999, 2000, 2001, 2999, 3000];
  let isExclusive = false;
  const asked: (readonly [number, number])[] = [];
  const types: unknown[] = [];
  const server = createServer((request, response) => {
    const bytes: Uint8Array[] = [];
    types.push(request.headers['m3-metrics-type']);
    request.on('data', (some: Uint8Array) => bytes.push(some));
    request.on('end', () => {
      const [query] = decodeReadRequest(decodeSnappy(Buffer.concat(bytes), 1 << 20)).queries;
      const { startMillis, endMillis } = query!;
      asked.push([startMillis, endMillis]);
      const found = rowsMillis.filter(
        (millis) =>
          millis >= startMillis && (isExclusive ? millis < endMillis : millis <= endMillis),
      );
      // One that answers whole chunks has rows before the begin, too.
      response.end(encodeSnappy(readResponseOf(isExclusive ? found : [999, ...found])));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const range = {
    url: `http://127.0.0.1:${port}/`,
    startMillis: 1000,
    endMillis: 3000,
    sliceMillis: 1000,
    names: '.+',
    headers: {},
  };
  const slices = async (headers: Readonly<Record<string, string>> = {}) => {
    const found: number[][] = [];
    for (const part of await remoteSource({ ...range, headers }, clock, signal).parts()) {
      const millis: number[] = [];
      for await (const { timestampNanos } of part.series(0)) {
        millis.push(...Array.from(timestampNanos, (nanos) => Number(nanos / 1_000_000n)));
      }
      found.push(millis);
    }
    return found;
  };
  const wanted = [
    [1000, 1999],
    [2000, 2001, 2999],
  ];
  assert.deepEqual(await slices(), wanted);
  isExclusive = true;
  assert.deepEqual(await slices(), wanted);
  assert.deepEqual(asked.slice(0, 2), [
    [1000, 2000],
    [2000, 3000],
  ]);
  // Of an M3 samples alone, but for who asks for others.
  await slices({ 'm3-metrics-type': 'aggregated', 'm3-storage-policy': '10m:2y' });
  await slices({ 'm3-restrict-by-storage-policies': '10m:2y' });
  assert.deepEqual(types, [
    ...Array<string>(4).fill('unaggregated'),
    'aggregated',
    'aggregated',
    undefined,
    undefined,
  ]);
  server.close();
});

test('rows that are not in the order of their times are put into it, of one time the last one', () => {
  const answer = {
    message: readResponseOf([2, 1, 3, 1]),
    within: { startNanos: 0n, endNanos: 10_000_000n },
    histogramsLeftOut: () => {},
  };
  const [series] = seriesOfResponse(answer, 'http://x');
  assert.deepEqual([...series!.timestampNanos], [1_000_000n, 2_000_000n, 3_000_000n]);
});

/** An answer with one series that has a row at each of these times. */
function readResponseOf(timesMillis: readonly number[]): Uint8Array {
  const series = new MessageWriter();
  writeLabels(series, [{ name: '__name__', value: 'm' }]);
  for (const millis of timesMillis) {
    const sample = new MessageWriter();
    sample.doubleField(1, 0, 0x3ff00000);
    sample.int64Field(2, millis);
    series.bytesField(2, sample.finish());
  }
  const result = new MessageWriter();
  result.bytesField(1, series.finish());
  const response = new MessageWriter();
  response.bytesField(1, result.finish());
  return response.finish();
}
