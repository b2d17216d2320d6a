/** What series of Datadog come to, written for reading (docs/DATADOG.md), for the campaign. */
import type { Tag } from '#lib/tags.ts';
import { plainNameTwin, rowText, type TestRows } from '../ingest/rows_testing.ts';

interface TwinSeries {
  readonly metric: string;
  readonly fields: readonly (readonly [type: string, name: string])[];
  readonly tags: readonly string[];
  /** Null for one that is none. */
  readonly points: readonly (readonly [seconds: number, value: number] | null)[];
}

/** Null for a body that is refused as a whole. */
type TwinBody = readonly (TwinSeries | null)[] | null;

const tagsMax = 1024;
const partFieldsMax = 64;

export function rowsOfTwin(body: readonly (TwinSeries | null)[]): TestRows {
  const rows: string[] = [];
  let refused = 0;
  for (const series of body) {
    const labels = series === null ? null : labelsOf(series);
    for (const point of series?.points ?? [null]) {
      const nanos = point === null ? null : nanosOf(point[0]);
      const isGood = nanos !== null && labels !== null && Number.isFinite(point![1]);
      if (isGood) rows.push(rowText(labels, nanos, point![1]));
      else refused += 1;
    }
  }
  return { rows, refused };
}

function nanosOf(seconds: number): bigint | null {
  if (!Number.isFinite(seconds) || Math.abs(Math.floor(seconds)) >= 9_223_372_036) return null;
  const whole = Math.floor(seconds);
  return BigInt(whole) * 1_000_000_000n + BigInt(Math.round((seconds - whole) * 1e6)) * 1000n;
}

function labelsOf({ metric, fields, tags }: TwinSeries): readonly Tag[] | null {
  if (metric === '' || fields.length + tags.length > tagsMax) return null;
  const own = new Map<string, string[]>();
  for (const [type, name] of fields) add(own, plainNameTwin(type, false), name);
  const others = new Map<string, string[]>();
  for (const tag of tags) {
    const [key, ...values] = tag.split(':') as [string, ...string[]];
    const name = plainNameTwin(key, false);
    const value = values.length === 0 ? 'no_label_value' : values.join(':');
    const ofField = own.get(name);
    if (ofField === undefined) add(others, name, value);
    else if (joined(ofField) !== value) add(others, `exported_${name}`, value);
  }
  const names = [...own.keys(), ...others.keys()];
  const isBad = (name: string): boolean => name === '' || name.startsWith('__');
  if (names.some(isBad) || new Set(names).size < names.length) return null;
  const labels = [...own, ...others].map(([name, values]) => ({ name, value: joined(values) }));
  labels.push({ name: '__name__', value: plainNameTwin(metric, true) });
  return labels.toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function add(to: Map<string, string[]>, name: string, value: string): void {
  if (value !== '') to.set(name, [...(to.get(name) ?? []), value]);
}

function joined(values: readonly string[]): string {
  return [...new Set(values)]
    .toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    .join(',');
}

type Json = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isText = (value: unknown): value is string =>
  typeof value === 'string' && value.isWellFormed();

export function twinOfJson(body: unknown, version: 1 | 2): TwinBody {
  const all = isObject(body) ? body['series'] : null;
  return Array.isArray(all) ? all.map((series) => seriesOfJson(series, version)) : null;
}

function seriesOfJson(series: unknown, version: 1 | 2): TwinSeries | null {
  if (!isObject(series)) return null;
  const { metric, points } = series;
  const tags = series['tags'] ?? [];
  if (!isText(metric) || !Array.isArray(points) || !Array.isArray(tags)) return null;
  if (!(tags as unknown[]).every(isText)) return null;
  const resources = version === 2 ? (series['resources'] ?? []) : resourcesOfV1(series);
  if (!Array.isArray(resources)) return null;
  const fields: [string, string][] = [];
  for (const resource of resources as unknown[]) {
    if (!isObject(resource) || !isText(resource['type']) || !isText(resource['name'])) return null;
    fields.push([resource['type'], resource['name']]);
  }
  const made = (points as unknown[]).map((point) => pointOfJson(point, version));
  return { metric, tags: tags as string[], fields, points: made };
}

const resourcesOfV1 = (series: Json): object[] =>
  ['host', 'device']
    .filter((type) => (series[type] ?? '') !== '')
    .map((type) => ({ type, name: series[type] }));

function pointOfJson(point: unknown, version: 1 | 2): readonly [number, number] | null {
  const pair = version === 1 ? point : isObject(point) && [point['timestamp'], point['value']];
  if (!Array.isArray(pair) || pair.length !== 2) return null;
  return pair.every((each) => typeof each === 'number') ? (pair as [number, number]) : null;
}

interface Field {
  readonly number: number;
  readonly type: number;
  /** A number's bits, or bytes. */
  readonly value: bigint | Buffer;
}

class NoMessage extends Error {}

export function twinOfProtobuf(body: Uint8Array): TwinBody {
  try {
    return fieldsOf(Buffer.from(body))
      .filter(({ number }) => number === 1)
      .map((field) => seriesOfMessage(bytesOf(field)));
  } catch (error) {
    if (error instanceof NoMessage) return null;
    throw error;
  }
}

function seriesOfMessage(message: Buffer): TwinSeries {
  const fields: [string, string][] = [];
  const tags: string[] = [];
  const points: [number, number][] = [];
  let metric = '';
  for (const field of fieldsOf(message)) {
    if (field.number === 1) {
      const resource = few(fieldsOf(bytesOf(field)));
      fields.push([lastText(resource, 1), lastText(resource, 2)]);
    } else if (field.number === 2) metric = textOf(field);
    else if (field.number === 3) tags.push(textOf(field));
    else if (field.number === 4) points.push(pointOfMessage(few(fieldsOf(bytesOf(field)))));
  }
  return { metric, fields, tags, points };
}

function pointOfMessage(fields: readonly Field[]): [number, number] {
  let value = 0n;
  let seconds = 0n;
  for (const field of fields) {
    if (field.number === 1) value = bitsOf(field, 1);
    else if (field.number === 2) seconds = BigInt.asIntN(64, bitsOf(field, 0));
  }
  return [Number(seconds), new Float64Array(BigUint64Array.of(value).buffer)[0]!];
}

function few(fields: Field[]): Field[] {
  if (fields.length > partFieldsMax) throw new NoMessage();
  return fields;
}

function lastText(fields: readonly Field[], number: number): string {
  return (
    fields
      .filter((field) => field.number === number)
      .map(textOf)
      .at(-1) ?? ''
  );
}

function textOf(field: Field): string {
  const bytes = bytesOf(field);
  const text = bytes.toString();
  if (!Buffer.from(text).equals(bytes)) throw new NoMessage();
  return text;
}

function bytesOf({ type, value }: Field): Buffer {
  if (type !== 2) throw new NoMessage();
  return value as Buffer;
}

function bitsOf({ type, value }: Field, expected: number): bigint {
  if (type !== expected) throw new NoMessage();
  return value as bigint;
}

function fieldsOf(bytes: Buffer): Field[] {
  const fields: Field[] = [];
  let at = 0;
  const take = (length: bigint): Buffer => {
    if (length > BigInt(bytes.length - at)) throw new NoMessage();
    at += Number(length);
    return bytes.subarray(at - Number(length), at);
  };
  const varint = (): bigint => {
    let value = 0n;
    for (let place = 0n; place < 10n; place += 1n) {
      const byte = BigInt(take(1n)[0]!);
      value |= (byte & 127n) << (7n * place);
      if (byte < 128n) return BigInt.asUintN(64, value);
    }
    throw new NoMessage();
  };
  while (at < bytes.length) {
    const key = varint();
    const [number, type] = [Number(key >> 3n), Number(key & 7n)];
    if (key > 0xffff_ffffn || number === 0) throw new NoMessage();
    if (type === 0) fields.push({ number, type, value: varint() });
    else if (type === 1) fields.push({ number, type, value: take(8n).readBigUInt64LE() });
    else if (type === 2) fields.push({ number, type, value: take(varint()) });
    else if (type === 5) fields.push({ number, type, value: take(4n) });
    else throw new NoMessage();
  }
  return fields;
}
