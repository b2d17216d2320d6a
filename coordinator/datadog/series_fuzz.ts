/** Bodies of series, of both versions, as JSON and protobuf, whole and damaged, must come to the rows and refusals of the twin. */
import assert from 'node:assert/strict';
import { legacyTagRules } from '#lib/tags.ts';
import { countInputs } from '#test/sim/counts.ts';
import { damaged, type Pick, pickOf, varintOf } from '#test/sim/mutate.ts';
import type { ApiRequest } from '../http/http_api.ts';
import { RowsOfDecoder, TakenPoints, valueOfJson } from '../ingest/rows_testing.ts';
import { datadogSeries } from './http.ts';
import { rowsOfTwin, twinOfJson, twinOfProtobuf } from './series_twin.ts';

const some = <T>(pick: Pick, of: readonly T[]): T => of[pick(of.length)]!;
const list = <T>(pick: Pick, end: number, make: () => T): T[] =>
  Array.from({ length: pick(end) }, make);

const signal = new AbortController().signal;

const metrics = ['system.load.1', 'a', '2x', 'é:b', '', '__x', '\u{1f600}', '..'];
const types = ['host', 'device', 'dc.1', '__name__', '', 'exported_host', 'é', '7', '_'];
const names = ['web-1', 'web-2', '', 'a,b', '\u{1f600}', '\uffff', 'ü', 'b'];
const tags = [
  'env:prod',
  'env:a',
  'host:web-1',
  'host:other',
  'exported_host:x',
  'alone',
  'x:',
  ':x',
  'a:b:c',
];
const times = [
  1_700_000_000,
  1_700_000_000.25,
  1.7e9 + 0.999_999_9,
  0,
  -1.5,
  9_223_372_036,
  9_223_372_035.5,
  -9_223_372_036,
  1e300,
];
const values = [0, -0, 1, -2.5, 1e308, 5e-324, 0.1, 123_456_789_012];

function tagOf(pick: Pick): string {
  const usual = pick(4) > 0;
  return usual ? some(pick, tags) : `${some(pick, types)}:${some(pick, names)}`;
}

/** About as many as a series may have. */
const manyTags = (pick: Pick): string[] =>
  Array.from({ length: 1021 + pick(6) }, (_, place) => `many:${place}`);

/** What should stand there, or anything else now and then. */
function json<T>(pick: Pick, usual: T): unknown {
  if (pick(40) > 0) return usual;
  return some<unknown>(pick, [
    null,
    true,
    1.5,
    'x',
    '',
    '\ud800',
    [],
    {},
    [1, 2],
    ['\udc00'],
    1e300,
  ]);
}

function jsonSeries(pick: Pick, version: 1 | 2): unknown {
  const point = (): unknown => {
    const time = json(pick, some(pick, times));
    const value = json(pick, some(pick, values));
    return json(pick, version === 1 ? [time, value] : { timestamp: time, value });
  };
  const resource = (): unknown =>
    json(pick, { type: json(pick, some(pick, types)), name: json(pick, some(pick, names)) });
  const series: Record<string, unknown> = {
    metric: json(pick, some(pick, metrics)),
    points: json(pick, list(pick, 4, point)),
  };
  if (pick(4) > 0) {
    const all = pick(150) === 0 ? manyTags(pick) : list(pick, 5, () => json(pick, tagOf(pick)));
    series['tags'] = json(pick, all);
  }
  if (version === 1) {
    if (pick(2) === 0) series['host'] = json(pick, some(pick, names));
    if (pick(4) === 0) series['device'] = json(pick, some(pick, names));
  } else if (pick(2) === 0) series['resources'] = json(pick, list(pick, 4, resource));
  if (pick(2) === 0) series['type'] = json(pick, 3);
  return json(pick, series);
}

function jsonBody(pick: Pick, version: 1 | 2): Buffer {
  const body = {
    series: json(
      pick,
      list(pick, 5, () => jsonSeries(pick, version)),
    ),
  };
  return Buffer.from(JSON.stringify(json(pick, body)));
}

type Bytes = readonly number[];

const bytesField = (number: number, bytes: Bytes): number[] => [
  ...varintOf(BigInt(number * 8 + 2)),
  ...varintOf(BigInt(bytes.length)),
  ...bytes,
];
const textField = (number: number, text: string): number[] =>
  bytesField(number, [...Buffer.from(text)]);
const varintField = (number: number, value: bigint): number[] => [number * 8, ...varintOf(value)];
const doubleField = (number: number, value: number): number[] => [
  number * 8 + 1,
  ...new Uint8Array(Float64Array.of(value).buffer),
];

/** Fields in any order, with some that nobody knows. */
function message(pick: Pick, fields: Bytes[]): number[] {
  const all = [...fields];
  if (pick(8) === 0)
    all.push(some(pick, [varintField(9, 7n), doubleField(12, 1), textField(15, 'x')]));
  if (pick(200) === 0)
    for (let count = 60 + pick(8); count > 0; count -= 1) all.push(varintField(9, 1n));
  for (let at = all.length - 1; at > 0 && pick(3) === 0; at -= 1) {
    const other = pick(at + 1);
    [all[at], all[other]] = [all[other]!, all[at]!];
  }
  return all.flat();
}

function protobufSeries(pick: Pick): number[] {
  const point = (): number[] => {
    const value = some(pick, [...values, ...(pick(8) === 0 ? [Number.NaN, Infinity] : [])]);
    const seconds = BigInt(Math.floor(some(pick, times.slice(0, -1))));
    const fields = [doubleField(1, value), varintField(2, pick(30) > 0 ? seconds : -(2n ** 63n))];
    return bytesField(4, message(pick, pick(20) === 0 ? fields.slice(1) : fields));
  };
  const resource = (): number[] =>
    bytesField(
      1,
      message(pick, [textField(1, some(pick, types)), textField(2, some(pick, names))]),
    );
  const all = pick(150) === 0 ? manyTags(pick) : list(pick, 5, () => tagOf(pick));
  return message(pick, [
    ...list(pick, 3, resource),
    textField(2, some(pick, metrics)),
    ...all.map((tag) => textField(3, tag)),
    ...list(pick, 4, point),
    varintField(5, 3n),
  ]);
}

const protobufBody = (pick: Pick): Buffer =>
  Buffer.from(
    message(
      pick,
      list(pick, 5, () => bytesField(1, protobufSeries(pick))),
    ),
  );

/** Lengths are one off now and then, which is seen at ends alone. */
function damagedBody(pick: Pick, whole: Uint8Array): Uint8Array {
  const at = pick(whole.length);
  if (pick(2) === 0 || whole[at]! > 40) return damaged(pick, whole);
  const bytes = Uint8Array.from(whole);
  bytes[at]! += pick(2) === 0 ? 1 : -1;
  return bytes;
}

export async function fuzz(seed: number, size: number): Promise<void> {
  const pick = pickOf(seed);
  const decoded = new RowsOfDecoder(pick);
  const ingestion = new TakenPoints();
  const setup = { ingest: ingestion.ingest, tagRules: legacyTagRules };
  for (let round = 0; round < size; round += 1) {
    const isProtobuf = pick(2) === 0;
    const version = isProtobuf || pick(2) === 0 ? 2 : 1;
    const whole = isProtobuf ? protobufBody(pick) : jsonBody(pick, version);
    const bytes = pick(3) > 0 ? whole : damagedBody(pick, whole);
    if (bytes.length === 0) continue;
    const type = isProtobuf ? 'application/x-protobuf' : 'application/json';
    const header = (name: string): string => (name === 'content-type' ? type : '');
    const request = { header, signal } as unknown as ApiRequest;
    const where = `seed ${seed}, body ${round}: ${JSON.stringify(Buffer.from(bytes).toString('latin1').slice(0, 500))}`;
    const answer = await datadogSeries(version)(setup, request, () => Promise.resolve(bytes));
    countInputs('bodies of Datadog');
    const twin = isProtobuf ? twinOfProtobuf(bytes) : twinOfJson(valueOfJson(bytes), version);
    const taken = ingestion.take();
    if (taken === null) {
      assert.equal(answer.status, 400, where);
      const [error] = (JSON.parse(answer.body as string) as { errors: string[] }).errors;
      assert.ok(twin === null || error!.includes('key is given twice'), `${where}: ${error}`);
      continue;
    }
    assert.equal(answer.status, 202, where);
    assert.ok(twin !== null, where);
    const { series, problems } = taken;
    const { rows, refused } = decoded.ofSeries(series);
    const expected = rowsOfTwin(twin);
    assert.equal(refused, 0, where);
    // What is bad in a series is told when it is read, so rows stay in their order.
    assert.deepEqual(rows, expected.rows, where);
    assert.equal(problems.length, expected.refused, where);
  }
}
