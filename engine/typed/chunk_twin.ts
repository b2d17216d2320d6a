/**
 * Chunks of kind typed (docs/formats/typed.md), written for reading: what the kernel must give, byte for byte.
 */
import { assert } from '#lib/assert.ts';
import {
  ByteSink,
  ByteSource,
  chunkKind,
  frameChunk,
  malformed,
  type ChunkHeader,
} from '../codec/chunk.ts';
import {
  decodeStarts,
  decodeTimes,
  decodeVersions,
  encodeLags,
  encodeStarts,
  encodeTimes,
  irregularTimesFlag,
} from '../codec/columns_twin.ts';
import { typedRowsMax } from '../codec/layout.ts';
import {
  ColumnBudget,
  decodeColumns,
  decodeNumbers,
  encodeColumns,
  encodeNumbers,
  fieldsOf,
  writeFields,
  type Fields,
} from './columns_twin.ts';
import {
  typedBytesMax,
  TypedValueReader,
  TypedValueWriter,
  valueKind,
  type ValueKind,
} from './typed_value.ts';

/** Rows of one series in strictly ascending time. */
export interface TypedRows {
  readonly timestampNanos: BigInt64Array;
  /** Typed values in their canonical form; together at most `typedBytesMax` bytes. */
  readonly values: readonly Uint8Array[];
  readonly rowVersions: Float64Array;
  /** Unix nanoseconds, 0 for none; null when no row has any. */
  readonly startNanos: BigInt64Array | null;
}

const startsFlag = 64;

interface Group {
  readonly kind: ValueKind;
  readonly layout: number;
  readonly rows: number[];
  readonly fields: Fields[];
}

/** @param rows 1 to `typedRowsMax` rows */
export function encodeTypedChunk(rows: TypedRows): Uint8Array<ArrayBuffer> {
  const { timestampNanos, values, rowVersions, startNanos } = rows;
  const rowCount = timestampNanos.length;
  assert(rowCount >= 1 && rowCount <= typedRowsMax, 'a typed chunk has 1 to 4096 rows');
  const times = encodeTimes(timestampNanos);
  const lags = encodeLags(timestampNanos, rowVersions);
  const payload = new ByteSink();
  payload.byte((times.isRegular ? 0 : irregularTimesFlag) | (startNanos === null ? 0 : startsFlag));
  payload.bytes(times.bytes);
  payload.bytes(lags.bytes);
  if (startNanos !== null) encodeStarts(payload, startNanos, timestampNanos);

  const groups = groupsOf(values);
  payload.varint(BigInt(groups.length));
  for (const { kind, layout } of groups) {
    payload.byte(kind);
    payload.varint(BigInt(layout));
  }
  if (groups.length > 1) {
    const groupOfRow = values.map(() => 0n);
    for (const [i, group] of groups.entries()) {
      for (const row of group.rows) groupOfRow[row] = BigInt(i);
    }
    encodeNumbers(payload, groupOfRow);
  }
  for (const { fields } of groups) encodeColumns(payload, fields);
  return frameChunk(
    {
      kind: chunkKind.typed,
      hasRowVersions: lags.hasRowVersions,
      timeUnitCode: times.unitCode,
      rowCount,
      firstNanos: timestampNanos[0]!,
      lastNanos: timestampNanos.at(-1)!,
      version: lags.version,
    },
    payload.finish(),
  );
}

/** Rows by kind and layout, in ascending order of both. */
function groupsOf(values: readonly Uint8Array[]): Group[] {
  const groups = new Map<string, Group>();
  for (const [row, value] of values.entries()) {
    const reader = new TypedValueReader().open(value);
    const { kind, layout } = reader;
    const key = `${kind} ${layout}`;
    let group = groups.get(key);
    if (group === undefined) {
      groups.set(key, (group = { kind: kind as ValueKind, layout, rows: [], fields: [] }));
    }
    group.rows.push(row);
    group.fields.push(fieldsOf(reader, value));
  }
  return [...groups.values()].sort((a, b) => a.kind - b.kind || a.layout - b.layout);
}

/**
 * Rows of a chunk.
 * @throws {TsdbError} BAD_REQUEST when the payload is malformed
 */
export function decodeTypedChunk(bytes: Uint8Array, header: ChunkHeader): TypedRows {
  assert(header.kind === chunkKind.typed, 'the chunk is of typed values');
  const { rowCount, payloadStart, end } = header;
  const source = new ByteSource(bytes, payloadStart, end);
  if (rowCount > typedRowsMax) throw malformed('has too many rows', payloadStart);
  const control = source.byte();
  if (control & 63) throw malformed('has rows of an unknown form', payloadStart);
  const timestampNanos = decodeTimes(source, header, (control & irregularTimesFlag) !== 0);
  const rowVersions = decodeVersions(source, header, timestampNanos);
  const startNanos = control & startsFlag ? decodeStarts(source, timestampNanos) : null;
  const values = decodeGroups(source, rowCount);
  if (source.offset !== source.end) throw malformed('has bytes after its rows', source.offset);
  return { timestampNanos, values, rowVersions, startNanos };
}

function decodeGroups(source: ByteSource, rowCount: number): Uint8Array[] {
  const count = source.varint();
  if (count === 0n || count > BigInt(rowCount)) {
    throw malformed('has a bad number of groups', source.offset);
  }
  const groups: Group[] = [];
  for (let i = 0n; i < count; i++) {
    const kind = source.byte();
    const layout = source.varint();
    if (
      kind < valueKind.histogram ||
      kind > valueKind.metadata ||
      layout > BigInt(Number.MAX_SAFE_INTEGER)
    ) {
      throw malformed('has values of an unknown kind', source.offset);
    }
    const before = groups.at(-1);
    const group: Group = { kind: kind as ValueKind, layout: Number(layout), rows: [], fields: [] };
    if (
      before !== undefined &&
      (group.kind < before.kind || (group.kind === before.kind && group.layout <= before.layout))
    ) {
      throw malformed('has groups that do not ascend', source.offset);
    }
    groups.push(group);
  }
  const groupOfRow =
    groups.length === 1
      ? Array.from({ length: rowCount }, () => 0n)
      : decodeNumbers(source, rowCount);
  for (const [row, group] of groupOfRow.entries()) {
    if (group < 0n || group >= count) throw malformed('has a row of no group', source.offset);
    groups[Number(group)]!.rows.push(row);
  }
  const budget = new ColumnBudget(rowCount);
  const values: Uint8Array[] = [];
  let valueBytes = 0;
  for (const { kind, layout, rows } of groups) {
    if (rows.length === 0) throw malformed('has a group without rows', source.offset);
    const fields = decodeColumns(source, rows, budget, 0);
    for (const [i, row] of rows.entries()) {
      const writer = new TypedValueWriter().begin(kind, layout);
      writeFields(writer, fields[i]!);
      values[row] = writer.finish();
      valueBytes += values[row].length;
      if (valueBytes > typedBytesMax) throw malformed('has too long values', source.offset);
    }
  }
  return values;
}
