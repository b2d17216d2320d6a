/** Collects the series of a fileset, entry by entry, and writes them column by column (docs/formats/columns.md). */
import { assert } from '#lib/assert.ts';
import { crc32c } from '#lib/hashing/crc32c.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { compareBytes } from '#lib/tags.ts';
import { PackedWriter } from '../../index/saved/packed.ts';
import { ColumnTexts } from '../fileset/column_texts.ts';
import type { FilesetSeries } from '../fileset/index_writer.ts';
import {
  columnsFormatVersion,
  columnsHeaderBytes,
  columnsMagic,
  entriesOfPlace,
  textsOfBlock,
  widthOf,
} from './format.ts';

const noBytes = new Uint8Array(0);

interface CollectedColumn {
  readonly texts: ColumnTexts;
  /** By entry: 0 for none, else the number of the value in the order in which they came, and one. */
  values: Uint32Array<ArrayBuffer>;
}

export class SeriesColumnsWriter {
  readonly #ids: CollectedColumn = { texts: new ColumnTexts(noBytes), values: new Uint32Array(64) };
  /** By name, one character a byte. */
  readonly #columns = new Map<string, CollectedColumn>();
  #schemes = new Uint8Array(64);
  #lengths = new Uint32Array(64);
  #checksums = new Uint32Array(64);
  #starts: number[] = [];
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
    if (series.idScheme === idSchemeCode.explicit) {
      this.#note(this.#ids, entry, bufferOf(explicitId), 0, explicitId.length);
    }
    const bytes = bufferOf(tags);
    for (let at = 0; at < tags.length; ) {
      const nameEnd = at + 2 + (tags[at]! | (tags[at + 1]! << 8));
      const valueEnd = nameEnd + 2 + (tags[nameEnd]! | (tags[nameEnd + 1]! << 8));
      assert(valueEnd <= tags.length, 'tags of a fileset are canonical');
      const name = bytes.toString('latin1', at + 2, nameEnd);
      this.#note(this.#columnOf(name), entry, bytes, nameEnd + 2, valueEnd);
      at = valueEnd;
    }
  }

  #columnOf(name: string): CollectedColumn {
    let column = this.#columns.get(name);
    if (column === undefined) {
      const texts = new ColumnTexts(Buffer.from(name, 'latin1'));
      column = { texts, values: new Uint32Array(this.#schemes.length) };
      this.#columns.set(name, column);
    }
    return column;
  }

  #note(column: CollectedColumn, entry: number, bytes: Buffer, start: number, end: number): void {
    column.values[entry] = column.texts.numberOf(bytes, start, end) + 1;
  }

  #grow(): void {
    const more = 2 * this.#schemes.length;
    const schemes = new Uint8Array(more);
    schemes.set(this.#schemes);
    this.#schemes = schemes;
    this.#lengths = enlarged(this.#lengths, more);
    this.#checksums = enlarged(this.#checksums, more);
    for (const column of [this.#ids, ...this.#columns.values()]) {
      column.values = enlarged(column.values, more);
    }
  }

  /** The whole file, a section at a time. @param indexCrc32c checksum of the index of the fileset: tells which one is meant */
  *finish(indexCrc32c: number): Generator<Uint8Array> {
    const count = this.#count;
    const footer = new PackedWriter();
    let at = 0;
    const noted = (section: Uint8Array): Uint8Array => {
      footer.u64(at);
      footer.u32(section.length);
      footer.u32(crc32c(section, 0, section.length));
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
    const tags = [...this.#columns.values()].sort((a, b) =>
      compareBytes(a.texts.name, b.texts.name),
    );
    footer.varint(tags.length + 1);
    let before: Uint8Array = noBytes;
    for (const column of [this.#ids, ...tags]) {
      const { texts, values } = column;
      footer.text(texts.name, before);
      before = texts.name;
      const isEverywhere = values.subarray(0, count).every((value) => value !== 0);
      const hasOneValue = texts.texts.length === 1 && isEverywhere;
      const width = hasOneValue || texts.texts.length === 0 ? 0 : widthOf(texts.texts.length + 1);
      footer.u32(texts.texts.length);
      footer.u8(width);
      footer.u8(texts.isSorted ? 1 : 0);
      yield noted(sectionOf(column, count, width));
    }
    const body = footer.view(0);
    yield body;
    const trailer = new Uint8Array(16);
    const view = new DataView(trailer.buffer);
    view.setUint32(0, crc32c(body, 0, body.length), true);
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

/** Its texts, where every block of them begins, and the numbers of the entries. */
function sectionOf({ texts, values }: CollectedColumn, count: number, width: number): Uint8Array {
  const order = texts.order();
  const packed = new PackedWriter();
  const blocks = Math.ceil(order.length / textsOfBlock);
  for (let block = 0; block < blocks; block++) packed.u32(0);
  const place = new Uint32Array(order.length + 1);
  for (const [i, number] of order.entries()) {
    place[number + 1] = i + 1;
    const isFirst = i % textsOfBlock === 0;
    if (isFirst) packed.setU32((4 * i) / textsOfBlock, packed.length);
    packed.text(texts.texts[number]!, isFirst ? noBytes : texts.texts[order[i - 1]!]!);
  }
  const numbers = width === 1 ? new Uint8Array(count) : width === 2 ? new Uint16Array(count) : null;
  const written = width === 0 ? new Uint8Array(0) : (numbers ?? new Uint32Array(count));
  for (let entry = 0; entry < written.length; entry++) written[entry] = place[values[entry]!]!;
  return Buffer.concat([bytesOf(written), packed.view(0)]);
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
