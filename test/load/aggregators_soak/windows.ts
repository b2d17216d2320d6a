/** Windows of rollups as a coordinator reads them, held against what the slow twin makes of all rows. */
import { decodeSnappy, encodeSnappy } from '#engine/write_decoder/snappy.ts';
import {
  rollupTwin,
  textOf,
  type TwinSeries,
} from '#cluster/aggregation_rules/rollups/rollup_twin.ts';
import { ruleSetsOf } from '#cluster/aggregation_rules/sets/sets_testing.ts';
import { MessageWriter } from '#engine/prometheus_messages/message_writer.ts';
import { sortTags, type Tag } from '#lib/tags.ts';
import { policy, policyText, rules, windowMillis } from './data.ts';

const readPath = '/api/v1/compat/remote/read';
const readTimeoutMillis = 60_000;
const answerBytesMax = 1 << 30;
const nanosPerMilli = 1_000_000n;
/** Those that are named. */
const differencesMax = 10;

/** A row as it is stored. */
export interface StoredRow {
  /** Of the tags of its series, as the twin has it. */
  readonly series: string;
  readonly millis: number;
  readonly value: number;
}

export interface WindowsRange {
  /** Where the first window begins. */
  readonly beginMillis: number;
  /** Where the last one ends. */
  readonly endMillis: number;
}

export interface Difference {
  readonly series: string;
  readonly end: string;
  /** Null where there is to be nothing. */
  readonly expected: number | null;
  readonly found: readonly { readonly time: string; readonly value: number }[];
}

export interface Comparison {
  readonly windows: number;
  readonly series: number;
  /** Windows of series, each of which is to have one row. */
  readonly compared: number;
  readonly missing: number;
  /** Windows that have more than one row. */
  readonly doubled: number;
  /** Of another value, or there although the series had nothing. */
  readonly wrong: number;
  /** The first of each kind. */
  readonly differences: Readonly<Record<'missing' | 'doubled' | 'wrong', readonly Difference[]>>;
}

/** @param cutoverMillis from when on the rules hold */
export function compareWindows(
  series: readonly TwinSeries[],
  cutoverMillis: number,
  range: WindowsRange,
  stored: readonly StoredRow[],
): Comparison {
  const ends: bigint[] = [];
  for (let end = range.beginMillis + windowMillis; end <= range.endMillis; end += windowMillis) {
    ends.push(BigInt(end) * nanosPerMilli);
  }
  const sets = ruleSetsOf([BigInt(cutoverMillis) * nanosPerMilli, rules]);
  const expected = rollupTwin(series, sets, policy, ends);
  const found = Map.groupBy(stored, (row) => {
    const endMillis = Math.ceil(row.millis / windowMillis) * windowMillis;
    return `${row.series} ${BigInt(endMillis) * nanosPerMilli}`;
  });
  const differences: Record<'missing' | 'doubled' | 'wrong', Difference[]> = {
    missing: [],
    doubled: [],
    wrong: [],
  };
  for (const key of new Set([...expected.keys(), ...found.keys()])) {
    const rows = found.get(key) ?? [];
    const wanted = expected.get(key) ?? null;
    const kind = kindOf(rows, wanted, key);
    if (kind !== null) differences[kind].push(differenceOf(key, wanted, rows));
  }
  const firstOf = (list: readonly Difference[]): Difference[] =>
    list.toSorted((a, b) => (a.end < b.end ? -1 : 1)).slice(0, differencesMax);
  const { missing, doubled, wrong } = differences;
  return {
    windows: ends.length,
    series: new Set([...expected.keys()].map((key) => partsOf(key).series)).size,
    compared: expected.size,
    missing: missing.length,
    doubled: doubled.length,
    wrong: wrong.length,
    differences: { missing: firstOf(missing), doubled: firstOf(doubled), wrong: firstOf(wrong) },
  };
}

function kindOf(
  rows: readonly StoredRow[],
  wanted: number | null,
  key: string,
): 'missing' | 'doubled' | 'wrong' | null {
  if (rows.length === 0) return 'missing';
  if (rows.length > 1) return 'doubled';
  const [{ millis, value }] = rows as readonly [StoredRow];
  const isAtEnd = BigInt(millis) * nanosPerMilli === partsOf(key).endNanos;
  return isAtEnd && wanted !== null && Object.is(value, wanted) ? null : 'wrong';
}

function partsOf(key: string): { readonly series: string; readonly endNanos: bigint } {
  const at = key.lastIndexOf(' ');
  return { series: key.slice(0, at), endNanos: BigInt(key.slice(at + 1)) };
}

const timeText = (millis: number): string => new Date(millis).toISOString();

function differenceOf(
  key: string,
  expected: number | null,
  rows: readonly StoredRow[],
): Difference {
  const { series, endNanos } = partsOf(key);
  return {
    series,
    end: timeText(Number(endNanos / nanosPerMilli)),
    expected,
    found: rows.map(({ millis, value }) => ({ time: timeText(millis), value })),
  };
}

/**
 * All rows of rollups with times after the begin, up to the end: exactly as they are stored, for remote read makes nothing of
 * them.
 */
export async function readWindows(
  url: string,
  { beginMillis, endMillis }: WindowsRange,
): Promise<StoredRow[]> {
  const response = await fetch(`${url}${readPath}`, {
    method: 'POST',
    headers: { 'TSDB-Metrics-Type': 'aggregated', 'TSDB-Storage-Policy': policyText },
    body: readRequest(beginMillis + 1, endMillis),
    signal: AbortSignal.timeout(readTimeoutMillis),
  });
  const bytes = new Uint8Array(await response.arrayBuffer());
  if (response.status !== 200) {
    throw new Error(`remote read: ${response.status} ${Buffer.from(bytes).toString()}`);
  }
  const rows: StoredRow[] = [];
  for (const result of bytesOf(fieldsOf(decodeSnappy(bytes, answerBytesMax)), 1)) {
    for (const one of bytesOf(fieldsOf(result), 1)) {
      const fields = fieldsOf(one);
      const series = textOf(sortTags(bytesOf(fields, 1).map(tagOf)));
      rows.push(...bytesOf(fields, 2).map((sample) => ({ series, ...sampleOf(sample) })));
    }
  }
  return rows;
}

/** Of what rules have made. */
function readRequest(startMillis: number, endMillis: number): Uint8Array<ArrayBuffer> {
  const matcher = new MessageWriter();
  matcher.bytesField(2, Buffer.from('__rollup__'));
  matcher.bytesField(3, Buffer.from('true'));
  const query = new MessageWriter();
  query.int64Field(1, startMillis);
  query.int64Field(2, endMillis);
  query.bytesField(3, matcher.finish());
  const request = new MessageWriter();
  request.bytesField(1, query.finish());
  return encodeSnappy(request.finish());
}

type Fields = ReadonlyMap<number, readonly (Uint8Array | bigint)[]>;

/** Any message of protobuf by the numbers of its fields. */
function fieldsOf(bytes: Uint8Array): Fields {
  const fields = new Map<number, (Uint8Array | bigint)[]>();
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++]!;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = Number(varint());
    const values = fields.get(key >> 3) ?? [];
    fields.set(key >> 3, values);
    if ((key & 7) === 0) {
      values.push(varint());
      continue;
    }
    const length = (key & 7) === 1 ? 8 : Number(varint());
    values.push(bytes.subarray(at, at + length));
    at += length;
  }
  return fields;
}

const bytesOf = (fields: Fields, number: number): Uint8Array[] =>
  (fields.get(number) ?? []) as Uint8Array[];

function tagOf(label: Uint8Array): Tag {
  const fields = fieldsOf(label);
  const text = (number: number): string =>
    Buffer.from(bytesOf(fields, number)[0] ?? new Uint8Array(0)).toString();
  return { name: text(1), value: text(2) };
}

function sampleOf(sample: Uint8Array): { readonly millis: number; readonly value: number } {
  const fields = fieldsOf(sample);
  const value = bytesOf(fields, 1)[0];
  const millis = fields.get(2)?.[0] ?? 0n;
  return {
    millis: Number(BigInt.asIntN(64, millis as bigint)),
    // What is 0 is left out.
    value: value === undefined ? 0 : Buffer.from(value).readDoubleLE(0),
  };
}
