/** The fields of a protobuf message one by one, read at leisure: what is cut off, field number 0 and groups are refused. */
export const wireVarint = 0;
export const wireFixed64 = 1;
export const wireBytes = 2;
const wireFixed32 = 5;
const fieldNumberMax = 2 ** 29 - 1;

export class Malformed extends Error {}

/** Reads fields between two offsets. */
export class Fields {
  readonly #bytes: Uint8Array;
  #at: number;
  readonly #end: number;
  number: number = 0;
  wireType: number = 0;

  constructor(bytes: Uint8Array, start: number, end: number) {
    this.#bytes = bytes;
    this.#at = start;
    this.#end = end;
  }

  /** Where what was not read yet begins. */
  get at(): number {
    return this.#at;
  }

  /** All bytes were read. */
  get isAtEnd(): boolean {
    return this.#at === this.#end;
  }

  /** Moves to the next field; false at the end. */
  next(): boolean {
    if (this.#at === this.#end) return false;
    const key = this.varint();
    if (key > 0xffff_ffffn) throw new Malformed('field key');
    this.number = Number(key >> 3n);
    this.wireType = Number(key & 7n);
    if (this.number === 0 || this.number > fieldNumberMax) throw new Malformed('field number');
    return true;
  }

  expect(wireType: number): void {
    if (this.wireType !== wireType) throw new Malformed('wire type');
  }

  /** The low 64 bits of at most ten bytes. */
  varint(): bigint {
    let value = 0n;
    for (let i = 0n; i < 10n; i++) {
      if (this.#at === this.#end) throw new Malformed('cut off');
      const byte = this.#bytes[this.#at++]!;
      value |= BigInt(byte & 127) << (7n * i);
      if (byte < 128) return BigInt.asUintN(64, value);
    }
    throw new Malformed('varint');
  }

  #take(length: number): number {
    if (length > this.#end - this.#at) throw new Malformed('cut off');
    this.#at += length;
    return this.#at - length;
  }

  /** Start and end of a field of bytes. */
  range(): [start: number, end: number] {
    const length = this.varint();
    if (length > 0xffff_ffffn) throw new Malformed('length');
    const start = this.#take(Number(length));
    return [start, this.#at];
  }

  fixed64(): bigint {
    const at = this.#take(8);
    return new DataView(this.#bytes.buffer, this.#bytes.byteOffset + at, 8).getBigUint64(0, true);
  }

  skip(): void {
    if (this.wireType === wireVarint) this.varint();
    else if (this.wireType === wireFixed64) this.#take(8);
    else if (this.wireType === wireBytes) this.range();
    else if (this.wireType === wireFixed32) this.#take(4);
    else throw new Malformed('group');
  }
}

export type Range = readonly [start: number, end: number];
