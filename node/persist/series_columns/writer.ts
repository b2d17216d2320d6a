/** Collects the series of a fileset, entry by entry, and writes them column by column (docs/formats/columns.md). */
import { assert } from '#lib/assert.ts';
import { crc32c } from '#lib/hashing/crc32c.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { tellsItsTags } from '#lib/series_id/to_tags.ts';
import { compareBytes } from '#lib/tags.ts';
import { PackedWriter } from '../../index/saved/packed.ts';
import type { FilesetSeries } from '../fileset/index_writer.ts';
import { ColumnWriter } from './column_writer.ts';
import {
  columnsFormatVersion,
  columnsHeaderBytes,
  columnsMagic,
  entriesOfPlace,
} from './format.ts';

const noBytes = new Uint8Array(0);

export class SeriesColumnsWriter {
  readonly #ids = new ColumnWriter(noBytes);
  /** By name, one character a byte. */
  readonly #columns = new Map<string, ColumnWriter>();
  #schemes = new Uint8Array(64);
  #lengths = new Uint32Array(64);
  #checksums = new Uint32Array(64);
  readonly #starts: number[] = [];
  /** Entries whose ID does not tell their tags. */
  readonly #untold: number[] = [];
  #count = 0;

  /**
   * Adds the next entry of the fileset.
   * @param dataOffset where its chunks begin, how long they are, and their checksum
   */
  add(series: FilesetSeries, dataOffset: number, length: number, checksum: number): void {
    const entry = this.#count++;
    if (entry === this.#schemes.length) this.#grow();
    assert(length < 2 ** 32, 'chunks of a series have less than 4 GiB');
    this.#schemes[entry] = series.idScheme;
    this.#lengths[entry] = length;
    this.#checksums[entry] = checksum;
    if (entry % entriesOfPlace === 0) this.#starts.push(dataOffset);
    const { tags, explicitId } = series;
    if (!tellsItsTags(series)) this.#untold.push(entry);
    if (series.idScheme === idSchemeCode.explicit) {
      this.#ids.note(entry, bufferOf(explicitId), 0, explicitId.length);
    }
    const bytes = bufferOf(tags);
    for (let at = 0; at < tags.length; ) {
      const nameEnd = at + 2 + (tags[at]! | (tags[at + 1]! << 8));
      const valueEnd = nameEnd + 2 + (tags[nameEnd]! | (tags[nameEnd + 1]! << 8));
      assert(valueEnd <= tags.length, 'tags of a fileset are canonical');
      const name = bytes.toString('latin1', at + 2, nameEnd);
      this.#columnOf(name).note(entry, bytes, nameEnd + 2, valueEnd);
      at = valueEnd;
    }
  }

  #columnOf(name: string): ColumnWriter {
    let column = this.#columns.get(name);
    if (column === undefined) {
      column = new ColumnWriter(Buffer.from(name, 'latin1'));
      this.#columns.set(name, column);
    }
    return column;
  }

  #grow(): void {
    const more = 2 * this.#schemes.length;
    const schemes = new Uint8Array(more);
    schemes.set(this.#schemes);
    this.#schemes = schemes;
    this.#lengths = enlarged(this.#lengths, more);
    this.#checksums = enlarged(this.#checksums, more);
  }

  /**
   * The whole file: parts one after the other, and steps between them, which give nothing.
   * @param indexCrc32c checksum of the index of the fileset: tells which one is meant
   */
  *finish(indexCrc32c: number): Generator<Uint8Array | undefined> {
    const count = this.#count;
    const footer = new PackedWriter();
    let at = 0;
    const noted = (section: Uint8Array): Uint8Array => {
      footer.u64(at);
      footer.u32(section.length);
      footer.u32(crc32c(section));
      at += section.length;
      return section;
    };
    const header = new Uint8Array(columnsHeaderBytes);
    header.set(Buffer.from(columnsMagic, 'latin1'));
    new DataView(header.buffer).setUint32(8, columnsFormatVersion, true);
    at += header.length;
    yield header;
    footer.u32(indexCrc32c);
    footer.u32(count);
    const [scheme = 0] = this.#schemes;
    const schemes = this.#schemes.subarray(0, count);
    const hasOneScheme = schemes.every((each) => each === scheme);
    footer.u8(scheme);
    yield noted(hasOneScheme ? noBytes : schemes);
    yield noted(this.#places());
    yield noted(bytesOf(Uint32Array.from(this.#untold)));
    const tags = [...this.#columns.values()].sort((a, b) => compareBytes(a.name, b.name));
    footer.varint(tags.length + 1);
    let before: Uint8Array = noBytes;
    for (const column of [this.#ids, ...tags]) {
      const { section, valueCount, holderCount, isSparse, width } = yield* steps(
        column.finish(count),
      );
      footer.text(column.name, before);
      before = column.name;
      footer.u32(valueCount);
      footer.u32(holderCount);
      footer.u8(isSparse ? 1 : 0);
      footer.u8(width);
      yield noted(section);
    }
    const body = footer.view(0);
    yield body;
    const trailer = new Uint8Array(16);
    const view = new DataView(trailer.buffer);
    view.setUint32(0, crc32c(body), true);
    view.setUint32(4, body.length, true);
    trailer.set(Buffer.from(columnsMagic, 'latin1'), 8);
    yield trailer;
  }

  #places(): Uint8Array {
    const starts = Float64Array.from(this.#starts);
    const [lengths, checksums] = [this.#lengths, this.#checksums].map((numbers) =>
      numbers.subarray(0, this.#count),
    );
    return Buffer.concat([starts, lengths!, checksums!].map(bytesOf));
  }
}

/** Its outcome, and of what it gives on the way nothing. */
function* steps<T>(made: Generator<void, T>): Generator<undefined, T> {
  for (;;) {
    const step = made.next();
    if (step.done === true) return step.value;
    yield undefined;
  }
}

function enlarged(values: Uint32Array, length: number): Uint32Array<ArrayBuffer> {
  const larger = new Uint32Array(length);
  larger.set(values);
  return larger;
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
