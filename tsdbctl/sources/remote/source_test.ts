/** What is asked of a database that answers remote read, and what is taken of its answers. */
import assert from 'node:assert/strict';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { decodeReadRequest } from '#coordinator/remote/messages.ts';
import { MessageWriter, writeLabels } from '#engine/prometheus_messages/message_writer.ts';
import { decodeSnappy, encodeSnappy } from '#engine/write_decoder/snappy.ts';
import { realEnv } from '#lib/env/real.ts';
import { badRequest } from '#lib/errors.ts';
import { sourceUpToDamage } from '../up_to_damage_testing.ts';
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
    onBroken: () => {},
  };
  const [series] = seriesOfResponse(answer, 'http://x');
  assert.deepEqual([...series!.timestampNanos], [1_000_000n, 2_000_000n, 3_000_000n]);
});

test('a byte order mark at the begin of a label is a part of it', () => {
  const answer = {
    message: readResponseOf([1], { name: '\ufeffm' }),
    within: { startNanos: 0n, endNanos: 10_000_000n },
    onBroken: () => {},
  };
  const [series] = seriesOfResponse(answer, 'http://x');
  assert.deepEqual(series!.tags, [{ name: '__name__', value: '\ufeffm' }]);
});

const whole: RequestListener = (_, response) =>
  void response.end(encodeSnappy(readResponseOf([1500])));
const answering =
  (status: number, headers: Readonly<Record<string, string>> = {}): RequestListener =>
  (_, response) =>
    void response.writeHead(status, headers).end('not now');
const reset: RequestListener = (request) => void request.socket.destroy();

/** A source that answers one way after the other, and then as it did last, with what is asked of it and waited for. */
async function answeringSource(...answers: readonly RequestListener[]) {
  const left = [...answers];
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    (left.length > 1 ? left.shift()! : left[0]!)(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const pauses: number[] = [];
  const reasons: string[] = [];
  let nowMillis = 0;
  const fastClock = {
    ...clock,
    monotonicMillis: () => nowMillis,
    sleep: async (millis: number) => {
      pauses.push(millis);
      nowMillis += millis;
    },
  };
  const range = {
    url: `http://127.0.0.1:${port}/read`,
    startMillis: 1000,
    endMillis: 2000,
    sliceMillis: 1000,
    names: '.+',
    headers: {},
  };
  const source = remoteSource(range, fastClock, signal, (reason) => reasons.push(reason));
  /** Rows of its slice. */
  const read = async (): Promise<number> => {
    const [part] = await source.parts();
    let rows = 0;
    for await (const { timestampNanos } of part!.series(0)) rows += timestampNanos.length;
    return rows;
  };
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    server.close();
  };
  return { source, read, asked, pauses, reasons, [Symbol.asyncDispose]: close };
}

test('a source that is away for a while is asked again, after the pause that it asks for', async () => {
  const busy = answering(429, { 'retry-after': '7' });
  await using remote = await answeringSource(whole, answering(503), busy, reset, whole);
  assert.equal(await remote.read(), 1);
  assert.deepEqual(remote.pauses, []);
  assert.equal(await remote.read(), 1);
  assert.deepEqual(remote.pauses, [500, 7000, 2000]);
  assert.deepEqual(remote.reasons.slice(0, 2), [
    'it answers 503: not now',
    'it answers 429: not now',
  ]);
  assert.equal(remote.asked.length, 5);
});

test('a source that stays away, or refuses what is asked, is no damage', async () => {
  for (const [answer, reason, requests] of [
    [answering(503), /it answers 503: not now, for 15m/, 30],
    [answering(401), /it answers 401: not now$/, 1],
  ] as const) {
    await using remote = await answeringSource(answer);
    await assert.rejects(remote.read(), { code: 'UNAVAILABLE', message: reason });
    assert.ok(remote.asked.length >= requests, String(remote.asked.length));
    const [part] = await sourceUpToDamage(remote.source, assert.fail).parts();
    await assert.rejects(Array.fromAsync(part!.series(0)), { code: 'UNAVAILABLE' });
  }
  // Nobody is there, or has been.
  await using nobody = await answeringSource(reset);
  await assert.rejects(nobody.read(), { code: 'UNAVAILABLE' });
  assert.deepEqual([nobody.asked.length, nobody.pauses], [1, []]);
});

test('what is asked is not asked of another address, which is named', async () => {
  await using remote = await answeringSource(
    answering(301, { location: 'http://other:9090/read' }),
    whole,
  );
  await assert.rejects(remote.read(), {
    code: 'UNAVAILABLE',
    message:
      /^cannot read http:.*: it answers 301: it is at http:\/\/other:9090\/read: name that address$/,
  });
  assert.deepEqual(remote.asked, ['POST /read']);
});

test('a call that is stopped is no damage of the slice that it reads', async () => {
  const stop = new AbortController();
  const range = { url: 'http://127.0.0.1:1/', startMillis: 0, endMillis: 1, sliceMillis: 1 };
  const source = remoteSource({ ...range, names: '.+', headers: {} }, clock, stop.signal);
  stop.abort(badRequest('stopped'));
  const [part] = await source.parts();
  await assert.rejects(Array.fromAsync(part!.series(0)), { code: 'CANCELLED', message: 'stopped' });
});

test('native histograms that break their rules are damage behind all else of the slice', async () => {
  const message = readResponseOf([1500], { histogramMillis: [1500, 1600, 2500] });
  await using remote = await answeringSource(
    (_, response) => void response.end(encodeSnappy(message)),
  );
  await assert.rejects(remote.read(), {
    code: 'BAD_REQUEST',
    message:
      /: 2 native histograms break their rules, one of them: histogram has 0 observations in its buckets, count 5 /,
  });
  const lines: string[] = [];
  const [part] = await sourceUpToDamage(remote.source, (line) => lines.push(line)).parts();
  const all = await Array.fromAsync(part!.series(0));
  assert.deepEqual([all.length, lines.length], [1, 1]);
});

/**
 * An answer with one series that has a row at each of these times.
 * @param more times of native histograms that have observations, and buckets for none
 */
function readResponseOf(
  timesMillis: readonly number[],
  more: { readonly name?: string; readonly histogramMillis?: readonly number[] } = {},
): Uint8Array {
  const { name = 'm', histogramMillis = [] } = more;
  const series = new MessageWriter();
  writeLabels(series, [{ name: '__name__', value: name }]);
  for (const millis of histogramMillis) {
    const histogram = new MessageWriter();
    histogram.uvarintField(1, 5n);
    histogram.int64Field(15, millis);
    series.bytesField(4, histogram.finish());
  }
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

test('a source whose clock is behind is told where a slice is not over to it', async () => {
  const server = createServer((_, response) => {
    response.setHeader('Date', new Date(7_200_000).toUTCString());
    response.end(encodeSnappy(readResponseOf([1000])));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const rowsAt = async (nowMillis: number): Promise<number> => {
    const range = {
      url: `http://127.0.0.1:${port}/`,
      startMillis: 0,
      endMillis: 7_000_000,
      sliceMillis: 7_000_000,
      names: '.+',
      headers: {},
    };
    const at = { ...clock, nowMillis: () => nowMillis };
    let rows = 0;
    for (const part of await remoteSource(range, at, signal).parts()) {
      for await (const { values } of part.series(0)) rows += values.length;
    }
    return rows;
  };
  assert.equal(await rowsAt(7_200_000), 1, 'it is asked for again');
  await assert.rejects(rowsAt(10_800_000), {
    code: 'CONFLICT',
    message: /its clock, which says 1970-01-01T02:00:00.000Z, .* 1970-01-01T03:00:00.000Z: set/,
  });
  server.close();
});

test('slices that rows may still come to are asked for again by the next call', async () => {
  const range = { url: 'http://127.0.0.1:1/', startMillis: 0, sliceMillis: 600_000, names: '.+' };
  const namesAt = async (nowMillis: number, endMillis: number): Promise<readonly string[]> => {
    const at = { ...clock, nowMillis: () => nowMillis };
    const source = remoteSource({ ...range, endMillis, headers: {} }, at, signal);
    return (await source.parts()).map(({ name }) => name);
  };
  assert.deepEqual(await namesAt(1_500_000, 3_600_000), [
    '0 to 600000',
    '600000 to 1200000 at 1500000',
    '1200000 to 1500000 at 1500000',
  ]);
  assert.deepEqual(await namesAt(3_600_000, 1_200_000), ['0 to 600000', '600000 to 1200000']);
  await assert.rejects(namesAt(-1, 1), /--from is not before --to and before now/);
});

test('an answer to remote read that is a part of what was asked for is refused', async () => {
  const server = createServer((request, response) => {
    const isAsked = request.headers['x-tenant'] === 'a';
    response.setHeader('M3-Results-Limited', 'max_fetch_series_limit_applied');
    response.writeHead(isAsked ? 200 : 401).end(encodeSnappy(new Uint8Array(0)));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const range = {
    url: `http://127.0.0.1:${port}/`,
    startMillis: 0,
    endMillis: 1000,
    sliceMillis: 1000,
    names: '.+',
  };
  for (const [headers, expected] of [
    [{ 'x-tenant': 'a' }, /answers a part of what was asked for \(m3-results-limited: max_fetch/],
    [{}, /it answers 401/],
  ] as const) {
    const [part] = await remoteSource({ ...range, headers }, clock, signal).parts();
    await assert.rejects(async () => {
      for await (const _ of part!.series(0)) assert.fail();
    }, expected);
  }
  server.close();
});
