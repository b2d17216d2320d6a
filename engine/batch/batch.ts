/**
 * The batch: rows of samples as columns, with a dictionary of the series that its receiver does not
 * know. One self-contained byte layout (docs/formats/batch.md) for the way from the write decoder
 * over the session and gRPC to the node and its commit log.
 */
import { assert } from '#lib/assert.ts';
import { badRequest } from '#lib/errors.ts';
import {
  alignColumn,
  batchBytesMax,
  batchRowsMax,
  batchVersionMax,
  columnEncoding,
  columnId,
  exponentOfTimeUnit,
  sectionKind,
  type TimeUnitNanos,
} from './format.ts';
import type { TypedBatchRows } from './read.ts';
import { type PlacedColumn, type PlacedSection, writeSections } from './write.ts';

export { compactBatch } from './compact.ts';
export { batchBytesMax, batchRowsMax, type TimeUnitNanos } from './format.ts';
export {
  type BatchView,
  readBatch,
  readTypedBatch,
  rowsOfBatch,
  type TypedBatchRows,
  type TypedBatchView,
} from './read.ts';

/** Builds batches one after the other in buffers that it keeps. */
export class BatchBuilder {
  #version = 0;
  #derivesVersions = false;
  #rowCount = 0;
  #timeUnitNanos: TimeUnitNanos = 1_000_000;
  readonly #slots = new Column();
  readonly #generations = new Column();
  readonly #timestamps = new Column();
  readonly #values = new Column();
  readonly #starts = new Column();
  readonly #typed = new TypedColumns();
  #seriesCount = 0;
  readonly #idSchemes = new Column();
  readonly #idEnds = new Column();
  readonly #idBytes = new Column();
  readonly #tagsEnds = new Column();
  readonly #tagsBytes = new Column();

  /**
   * Forgets everything and starts a batch of this version (lib/hybrid_clock.ts).
   * @param derivesVersions as in `BatchView`
   */
  begin(version: number, derivesVersions: boolean = false): void {
    assert(
      Number.isInteger(version) && version >= 0 && version <= batchVersionMax,
      'a batch version is a whole number below 2^53',
    );
    this.#version = version;
    this.#derivesVersions = derivesVersions;
    this.#rowCount = 0;
    this.#seriesCount = 0;
    for (const column of this.#columns()) column.clear();
    this.#typed.clear();
  }

  /**
   * Adds a dictionary entry.
   * @param tags canonical layout; copied
   * @param idScheme `idSchemeCode`
   * @param explicitId the ID for scheme 0, else empty; copied
   * @returns its ordinal, the slot of its rows (with generation 0)
   * @throws {TsdbError} BAD_REQUEST when the dictionary is full
   */
  addSeries(tags: Uint8Array, idScheme: number, explicitId: Uint8Array): number {
    if (this.#seriesCount === batchRowsMax) {
      throw badRequest(`cannot build batch: more than ${batchRowsMax} dictionary entries`);
    }
    this.#tagsBytes.append(tags);
    this.#tagsEnds.appendU32(this.#tagsBytes.length);
    this.#idBytes.append(explicitId);
    this.#idEnds.appendU32(this.#idBytes.length);
    this.#idSchemes.appendU8(idScheme);
    return this.#seriesCount++;
  }

  /**
   * Sets the rows of this batch; a second call replaces them. The columns are copied, bit for bit.
   * @param slots at least `rowCount` long, like the others
   * @param timestamps in units of `timeUnitNanos`
   * @param startNanos null when no row has a start time; such of which none has are not written
   * @throws {TsdbError} BAD_REQUEST when there are too many rows
   */
  setRows(
    rowCount: number,
    slots: Uint32Array,
    generations: Uint32Array,
    timestamps: BigInt64Array,
    timeUnitNanos: TimeUnitNanos,
    values: Float64Array,
    startNanos: BigInt64Array | null = null,
  ): void {
    if (rowCount > batchRowsMax) {
      throw badRequest(`cannot build batch: more than ${batchRowsMax} rows: ${rowCount}`);
    }
    for (const column of [slots, generations, timestamps, values]) {
      assert(column.length >= rowCount, 'a column holds all rows');
    }
    this.#rowCount = rowCount;
    this.#timeUnitNanos = timeUnitNanos;
    this.#slots.set(slots, rowCount);
    this.#generations.set(generations, rowCount);
    this.#timestamps.set(timestamps, rowCount);
    this.#values.set(values, rowCount);
    this.#starts.setStarts(startNanos, rowCount);
  }

  /**
   * Sets the typed rows of this batch; a second call replaces them. The columns are copied.
   * @throws {TsdbError} BAD_REQUEST when there are too many rows, or bytes
   */
  setTypedRows(rows: TypedBatchRows): void {
    if (rows.rowCount > batchRowsMax) {
      throw badRequest(`cannot build batch: more than ${batchRowsMax} rows: ${rows.rowCount}`);
    }
    this.#typed.set(rows);
  }

  /**
   * The batch as bytes, a fresh buffer that the caller owns. The builder may be used again.
   * @throws {TsdbError} BAD_REQUEST when it is larger than `batchBytesMax`
   */
  finish(): Uint8Array<ArrayBuffer> {
    const sections: PlacedSection[] = [];
    if (this.#rowCount > 0) {
      sections.push({
        kind: sectionKind.floatSamples,
        timeExponent: exponentOfTimeUnit[this.#timeUnitNanos],
        rowCount: this.#rowCount,
        columns: [
          this.#slots.place(columnId.slot),
          this.#generations.placeShort(columnId.generation, 4),
          this.#timestamps.placeShort(columnId.timestamp, 8),
          this.#values.place(columnId.value),
          ...this.#starts.placeStarts(),
        ],
      });
    }
    sections.push(...this.#typed.section());
    if (this.#seriesCount > 0) {
      sections.push({
        kind: sectionKind.dictionary,
        timeExponent: 0,
        rowCount: this.#seriesCount,
        columns: [
          this.#idSchemes.placeShort(columnId.idScheme, 1),
          this.#idEnds.placeShort(columnId.idEnd, 4),
          this.#idBytes.place(columnId.idBytes),
          this.#tagsEnds.place(columnId.tagsEnd),
          this.#tagsBytes.place(columnId.tagsBytes),
        ],
      });
    }
    return writeSections(this.#version, sections, this.#derivesVersions);
  }

  *#columns(): Generator<Column> {
    yield* [this.#slots, this.#generations, this.#timestamps, this.#values, this.#starts];
    yield* [this.#idSchemes, this.#idEnds, this.#idBytes, this.#tagsEnds, this.#tagsBytes];
  }
}

/** The typed rows of a batch. */
class TypedColumns {
  #rowCount = 0;
  #timeExponent = 0;
  readonly #slots = new Column();
  readonly #generations = new Column();
  readonly #timestamps = new Column();
  readonly #starts = new Column();
  readonly #valueEnds = new Column();
  readonly #valueBytes = new Column();

  clear(): void {
    this.#rowCount = 0;
  }

  set(rows: TypedBatchRows): void {
    const { rowCount, startNanos, valueEnds } = rows;
    this.#rowCount = rowCount;
    this.#timeExponent = exponentOfTimeUnit[rows.timeUnitNanos];
    this.#slots.set(rows.slots, rowCount);
    this.#generations.set(rows.generations, rowCount);
    this.#timestamps.set(rows.timestamps, rowCount);
    this.#starts.setStarts(startNanos, rowCount);
    this.#valueEnds.set(valueEnds, rowCount);
    this.#valueBytes.clear();
    if (rowCount > 0) {
      this.#valueBytes.append(rows.valueBytes.subarray(0, valueEnds[rowCount - 1]));
    }
  }

  /** The section, if there are rows. */
  *section(): Generator<PlacedSection> {
    if (this.#rowCount === 0) return;
    yield {
      kind: sectionKind.typedValues,
      timeExponent: this.#timeExponent,
      rowCount: this.#rowCount,
      columns: [
        this.#slots.place(columnId.slot),
        this.#generations.placeShort(columnId.generation, 4),
        this.#timestamps.placeShort(columnId.timestamp, 8),
        this.#valueEnds.place(columnId.typedEnd),
        this.#valueBytes.place(columnId.typedBytes),
        ...this.#starts.placeStarts(),
      ],
    };
  }
}

/** First buffer of a column in bytes; it doubles from there. */
const columnBytesFirst = 1024;

/** A growing byte buffer. */
class Column {
  bytes: Uint8Array<ArrayBuffer> = new Uint8Array(columnBytesFirst);
  length = 0;

  clear(): void {
    this.length = 0;
  }

  append(part: Uint8Array): void {
    this.#reserve(this.length + part.length);
    this.bytes.set(part, this.length);
    this.length += part.length;
  }

  appendU8(value: number): void {
    this.#reserve(this.length + 1);
    this.bytes[this.length++] = value;
  }

  appendU32(value: number): void {
    this.#reserve(this.length + 4);
    this.bytes[this.length] = value;
    this.bytes[this.length + 1] = value >>> 8;
    this.bytes[this.length + 2] = value >>> 16;
    this.bytes[this.length + 3] = value >>> 24;
    this.length += 4;
  }

  /** Copies bytes, never numbers: a signalling NaN keeps its bits. */
  set(column: Uint32Array | BigInt64Array | Float64Array, rowCount: number): void {
    const byteLength = rowCount * column.BYTES_PER_ELEMENT;
    this.#reserve(byteLength);
    this.bytes.set(new Uint8Array(column.buffer, column.byteOffset, byteLength), 0);
    this.length = byteLength;
  }

  /** Empty when no row has a start time. */
  setStarts(startNanos: BigInt64Array | null, rowCount: number): void {
    this.length = 0;
    if (startNanos?.subarray(0, rowCount).some((start) => start !== 0n) === true) {
      this.set(startNanos, rowCount);
    }
  }

  placeStarts(): PlacedColumn[] {
    return this.length === 0 ? [] : [this.placeShort(columnId.start, 8)];
  }

  place(id: number): PlacedColumn {
    return { id, encoding: columnEncoding.raw, bytes: this.bytes.subarray(0, this.length) };
  }

  /** One element of `elementBytes` bytes stands for all when they are equal. */
  placeShort(id: number, elementBytes: number): PlacedColumn {
    if (!this.#isConstant(elementBytes)) return this.place(id);
    return { id, encoding: columnEncoding.constant, bytes: this.bytes.subarray(0, elementBytes) };
  }

  #isConstant(elementBytes: number): boolean {
    if (elementBytes === 1) return isRepeated(this.bytes, this.length, 1);
    const words = new Uint32Array(this.bytes.buffer, 0, this.length >>> 2);
    return isRepeated(words, words.length, elementBytes >>> 2);
  }

  #reserve(byteLength: number): void {
    if (byteLength <= this.bytes.length) return;
    if (byteLength > batchBytesMax) {
      throw badRequest(`cannot build batch: a column is larger than ${batchBytesMax} bytes`);
    }
    const grown = new Uint8Array(alignColumn(Math.max(byteLength, this.bytes.length * 2)));
    grown.set(this.bytes.subarray(0, this.length));
    this.bytes = grown;
  }
}

function isRepeated(words: Uint8Array | Uint32Array, end: number, stride: number): boolean {
  for (let i = stride; i < end; i++) if (words[i] !== words[i - stride]) return false;
  return true;
}
