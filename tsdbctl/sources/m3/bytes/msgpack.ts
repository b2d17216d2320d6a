/**
 * MessagePack, as far as M3 writes it: an object is its version, and an array of its type and of an
 * array of its fields, which later releases may have added to.
 */
import { badRequest } from '#lib/errors.ts';

/** Numbers of the types of objects. */
export const objectTypes = {
  indexInfo: 2,
  indexEntry: 5,
  logInfo: 7,
  logEntry: 8,
  logMetadata: 9,
} as const;

const versionMax = 1;

const empty = new Uint8Array();

/** Code of what is not there. */
const nothing = 0xc0;

const isPositiveFixed = (code: number): boolean => code <= 0x7f;
const isNegativeFixed = (code: number): boolean => code >= 0xe0;

/**
 * Reads values one after the other. At the end of the bytes all that is read is 0 or empty, and
 * `isCutOff` is set.
 */
export class MessageReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #end: number;
  at = 0;
  isCutOff = false;
  /** Halves of the number that was read last: a whole one, or the bits of a float; both signed. */
  high = 0;
  low = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.#end = bytes.length;
  }

  /** Goes to a message among the bytes. */
  seek(from: number, to: number): void {
    this.at = from;
    this.#end = to;
    this.isCutOff = false;
  }

  get isAtEnd(): boolean {
    return this.at === this.#end;
  }

  /**
   * Reads the beginning of an object.
   * @returns how many fields it has
   * @throws {TsdbError} BAD_REQUEST when it is another type, or of a release that cannot be read
   */
  object(type: number, fieldsMin: number): number {
    const version = this.number();
    const parts = this.array();
    const actualType = this.number();
    const fields = this.array();
    if (this.isCutOff) return 0;
    if (version > versionMax) throw badRequest(`version is above ${versionMax}: ${version}`);
    if (parts !== 2) throw badRequest(`object is not of two parts: ${parts}`);
    if (actualType !== type) throw badRequest(`type of object is not ${type}: ${actualType}`);
    if (fields < fieldsMin)
      throw badRequest(`object has fewer than ${fieldsMin} fields: ${fields}`);
    return fields;
  }

  /** @throws {TsdbError} BAD_REQUEST when there is something else */
  array(): number {
    const code = this.#byte();
    if (code >= 0x90 && code <= 0x9f) return code & 15;
    if (code === 0xdc) return this.#unsigned(2);
    if (code === 0xdd) return this.#unsigned(4);
    return this.#other('an array', code);
  }

  /**
   * A whole number to `high` and `low`, and 0 for nothing.
   * @throws {TsdbError} BAD_REQUEST when there is something else
   */
  whole(): void {
    const code = this.#byte();
    this.high = 0;
    if (isPositiveFixed(code)) this.low = code;
    else if (isNegativeFixed(code)) this.#signed(code, 24);
    else if (code === 0xcf || code === 0xd3) this.#pair();
    else if (code === 0xce) this.low = this.#unsigned(4) | 0;
    else if (code === 0xcd) this.low = this.#unsigned(2);
    else if (code === 0xcc) this.low = this.#unsigned(1);
    else if (code === 0xd2) this.#signed(this.#unsigned(4), 0);
    else if (code === 0xd1) this.#signed(this.#unsigned(2), 16);
    else if (code === 0xd0) this.#signed(this.#unsigned(1), 24);
    else if (code === nothing) this.low = 0;
    else this.#other('a whole number', code);
  }

  /** A whole number. @throws {TsdbError} BAD_REQUEST when there is something else, or it is no safe integer */
  number(): number {
    this.whole();
    const value = this.high * 2 ** 32 + (this.low >>> 0);
    if (!Number.isSafeInteger(value)) throw badRequest(`number is too large: ${value}`);
    return value;
  }

  bigint(): bigint {
    this.whole();
    return (BigInt(this.high) << 32n) | BigInt(this.low >>> 0);
  }

  /**
   * A float, whose bits go to `high` and `low`.
   * @throws {TsdbError} BAD_REQUEST when there is something else
   */
  float(): void {
    const code = this.#byte();
    if (code === 0xcb) {
      this.#pair();
    } else if (code === 0xca) {
      if (this.#lacks(4)) return;
      const wide = new DataView(new ArrayBuffer(8));
      wide.setFloat64(0, this.#view.getFloat32(this.at));
      this.at += 4;
      this.high = wide.getInt32(0);
      this.low = wide.getInt32(4);
    } else {
      this.#other('a float', code);
    }
  }

  /**
   * Bytes, of which nothing is copied; none for nothing.
   * @throws {TsdbError} BAD_REQUEST when there is something else
   */
  bytes(): Uint8Array {
    const length = this.#length();
    if (length === 0 || this.#lacks(length)) return empty;
    this.at += length;
    return this.#bytes.subarray(this.at - length, this.at);
  }

  /**
   * Passes over values.
   * @throws {TsdbError} BAD_REQUEST when there is something that M3 does not write
   */
  skip(count: number): void {
    for (let left = count; left > 0 && !this.isCutOff; left -= 1) {
      const code = this.#lacks(1) ? nothing : this.#bytes[this.at]!;
      if (code >= 0x90 && code <= 0x9f) left += this.array();
      else if (code === 0xdc || code === 0xdd) left += this.array();
      else if (code === 0xca || code === 0xcb) this.float();
      else if ((code >= 0xa0 && code <= 0xbf) || (code >= 0xd9 && code <= 0xdb)) this.bytes();
      else if (code >= 0xc4 && code <= 0xc6) this.bytes();
      else if (code === 0xc2 || code === 0xc3) this.#byte();
      else this.whole();
    }
  }

  #length(): number {
    const code = this.#byte();
    if (code === nothing) return 0;
    if (code >= 0xa0 && code <= 0xbf) return code & 31;
    if (code === 0xc4 || code === 0xd9) return this.#unsigned(1);
    if (code === 0xc5 || code === 0xda) return this.#unsigned(2);
    if (code === 0xc6 || code === 0xdb) return this.#unsigned(4);
    return this.#other('bytes', code);
  }

  #other(expected: string, code: number): number {
    if (this.isCutOff) return 0;
    throw badRequest(`there is something else than ${expected}: 0x${code.toString(16)}`);
  }

  #lacks(count: number): boolean {
    if (count > this.#end - this.at) this.isCutOff = true;
    return this.isCutOff;
  }

  #byte(): number {
    if (this.#lacks(1)) return 0;
    this.at += 1;
    return this.#bytes[this.at - 1]!;
  }

  #unsigned(byteCount: 1 | 2 | 4): number {
    if (this.#lacks(byteCount)) return 0;
    const { at } = this;
    this.at += byteCount;
    if (byteCount === 4) return this.#view.getUint32(at);
    return byteCount === 2 ? this.#view.getUint16(at) : this.#bytes[at]!;
  }

  #signed(bits: number, shift: number): void {
    this.low = (bits << shift) >> shift;
    this.high = this.low >> 31;
  }

  #pair(): void {
    if (this.#lacks(8)) return;
    this.high = this.#view.getInt32(this.at);
    this.low = this.#view.getInt32(this.at + 4);
    this.at += 8;
  }
}
