/** Series of Datadog as agents send them to version 2: the protobuf message MetricPayload. */
import {
  Fields,
  Malformed,
  wireBytes,
  wireFixed64,
  wireVarint,
} from '#engine/write_decoder/wire_fields.ts';
import { badRequest } from '#lib/errors.ts';
import { tagsCountMax } from '#lib/tags.ts';
import type { Work } from '#lib/turns/turns.ts';
import type { Point } from '../ingest/point_series.ts';
import { type DatadogBody, pointAt } from './series.ts';

/** About what it takes to put a series together, and to read a field of it, in units of work (lib/turns/turns.ts). */
const seriesUnits = 5_000;
const fieldUnits = 1_000;
/** Fields of a point or a resource, which are read in one go; they have two, and may come to have more. */
const partFieldsMax = 64;

const texts = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const double = new DataView(new ArrayBuffer(8));

/** @throws {TsdbError} BAD_REQUEST when it is no such message, or has too many points */
export async function takeProtobuf(
  message: Uint8Array,
  body: DatadogBody,
  work: Work,
): Promise<void> {
  try {
    const payload = new Fields(message, 0, message.length);
    while (payload.next()) {
      if (payload.number !== 1) {
        payload.skip();
        if (work.spend(fieldUnits)) await work.pause();
      } else {
        payload.expect(wireBytes);
        const [start, end] = payload.range();
        await takeSeries(message, start, end, body, work);
      }
    }
  } catch (error) {
    if (!(error instanceof Malformed)) throw error;
    throw badRequest(`cannot read the body as MetricPayload: ${error.message}`);
  }
}

async function takeSeries(
  bytes: Uint8Array,
  start: number,
  end: number,
  body: DatadogBody,
  work: Work,
): Promise<void> {
  const fields: (readonly [string, string])[] = [];
  const tags: string[] = [];
  const points: Point[] = [];
  let metric = '';
  const series = new Fields(bytes, start, end);
  while (series.next()) {
    const { number } = series;
    if (work.spend(fieldUnits)) await work.pause();
    if (number < 1 || number > 4) {
      series.skip();
      continue;
    }
    series.expect(wireBytes);
    const [from, to] = series.range();
    if (number === 1) addSome(fields, resourceOf(bytes, from, to));
    else if (number === 2) metric = textOf(bytes, from, to);
    else if (number === 3) addSome(tags, textOf(bytes, from, to));
    else {
      const point = pointOf(bytes, from, to);
      body.checkCount(points.length + 1);
      if (typeof point !== 'string') points.push(point);
      else body.refuse(`${metric}: points: ${point}`);
    }
  }
  body.add({ metric, fields, tags }, points);
  if (work.spend(seriesUnits)) await work.pause();
}

/** As far as more are too many. */
function addSome<T>(all: T[], one: T): void {
  if (all.length <= tagsCountMax) all.push(one);
}

function resourceOf(bytes: Uint8Array, start: number, end: number): [type: string, name: string] {
  const resource: [string, string] = ['', ''];
  const fields = new Fields(bytes, start, end);
  for (let count = 1; fields.next(); count++) {
    checkFieldCount(count, 'resource');
    if (fields.number !== 1 && fields.number !== 2) fields.skip();
    else {
      fields.expect(wireBytes);
      resource[fields.number - 1] = textOf(bytes, ...fields.range());
    }
  }
  return resource;
}

/** Or why it is none. */
function pointOf(bytes: Uint8Array, start: number, end: number): Point | string {
  let value = 0;
  let seconds = 0n;
  const fields = new Fields(bytes, start, end);
  for (let count = 1; fields.next(); count++) {
    checkFieldCount(count, 'point');
    if (fields.number === 1) {
      fields.expect(wireFixed64);
      double.setBigUint64(0, fields.fixed64());
      value = double.getFloat64(0);
    } else if (fields.number === 2) {
      fields.expect(wireVarint);
      seconds = BigInt.asIntN(64, fields.varint());
    } else fields.skip();
  }
  if (!Number.isFinite(value)) return `value: not a finite number: ${value}`;
  return (
    pointAt(Number(seconds), value) ?? `timestamp: out of range (seconds expected): ${seconds}`
  );
}

function checkFieldCount(count: number, of: string): void {
  if (count > partFieldsMax) throw new Malformed(`more than ${partFieldsMax} fields in a ${of}`);
}

function textOf(bytes: Uint8Array, start: number, end: number): string {
  try {
    return texts.decode(bytes.subarray(start, end));
  } catch {
    throw new Malformed('a text is not UTF-8');
  }
}
