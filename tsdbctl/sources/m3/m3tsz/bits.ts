/** Bits of a stream, the highest of each byte first. */
import { badRequest } from '#lib/errors.ts';

/** Bytes behind the last one that are read, too, and never used. */
const slackBytes = 8;

/** Positions are 32 bits wide. */
export const streamBytesMax: number = 1 << 26;

export class BitReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #end: number;
  #at = 0;

  /** @throws {TsdbError} BAD_REQUEST when there are too many */
  constructor(bytes: Uint8Array) {
    if (bytes.length > streamBytesMax) {
      throw badRequest(`stream is longer than ${streamBytesMax} bytes: ${bytes.length}`);
    }
    this.#bytes = new Uint8Array(bytes.length + slackBytes);
    this.#bytes.set(bytes);
    this.#view = new DataView(this.#bytes.buffer);
    this.#end = bytes.length * 8;
  }

  get left(): number {
    return this.#end - this.#at;
  }

  /**
   * The next bits, 1 to 32 of them, as a number that is not negative; they stay unread. Those behind
   * the end are 0.
   */
  peek(count: number): number {
    const byte = this.#at >>> 3;
    const begun = this.#at & 7;
    const word = (this.#view.getUint32(byte) << begun) | (this.#bytes[byte + 4]! >>> (8 - begun));
    return word >>> (32 - count);
  }

  /** @throws {TsdbError} BAD_REQUEST when there are fewer */
  skip(count: number): void {
    if (count > this.#end - this.#at) {
      throw badRequest(`stream ends within a row: ${this.#end >>> 3} bytes`);
    }
    this.#at += count;
  }

  /**
   * The next bits, 0 to 32 of them, as a number that is not negative.
   * @throws {TsdbError} BAD_REQUEST when there are fewer
   */
  read(count: number): number {
    if (count === 0) return 0;
    const bits = this.peek(count);
    this.skip(count);
    return bits;
  }
}
