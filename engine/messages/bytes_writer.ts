/** So many are copied one by one sooner than a view of them is made. */
const shortBytes = 32;

const varintBytesMax = 10;

/** Bytes that are written one after the other, numbers as varints of pairs of 32 bits. */
export class BytesWriter {
  bytes: Uint8Array<ArrayBuffer> = new Uint8Array(1024);
  #view: DataView = new DataView(this.bytes.buffer);
  length = 0;

  reserve(count: number): void {
    if (this.length + count <= this.bytes.length) return;
    const larger = new Uint8Array(Math.max(2 * this.bytes.length, this.length + count));
    larger.set(this.bytes.subarray(0, this.length));
    this.bytes = larger;
    this.#view = new DataView(larger.buffer);
  }

  byte(value: number): void {
    this.reserve(1);
    this.bytes[this.length++] = value;
  }

  /** @param value a whole number below 2^53 */
  varint(value: number): void {
    this.reserve(varintBytesMax);
    let rest = value;
    while (rest >= 128) {
      this.bytes[this.length++] = (rest % 128) | 128;
      rest = Math.floor(rest / 128);
    }
    this.bytes[this.length++] = rest;
  }

  /** @param low 32 bits, as the high ones signed or not */
  varint64(low: number, high: number): void {
    this.reserve(varintBytesMax);
    const { bytes } = this;
    let rest = low >>> 0;
    let upper = high >>> 0;
    while (upper !== 0 || rest >= 128) {
      bytes[this.length++] = (rest & 127) | 128;
      rest = ((rest >>> 7) | (upper << 25)) >>> 0;
      upper >>>= 7;
    }
    bytes[this.length++] = rest;
  }

  fixed32(low: number): void {
    this.reserve(4);
    this.#view.setUint32(this.length, low, true);
    this.length += 4;
  }

  fixed64(low: number, high: number): void {
    this.reserve(8);
    this.#view.setUint32(this.length, low, true);
    this.#view.setUint32(this.length + 4, high, true);
    this.length += 8;
  }

  /** Bytes [from, end) of another one's. */
  copy(source: Uint8Array, from: number, end: number): void {
    this.reserve(end - from);
    if (end - from > shortBytes) this.bytes.set(source.subarray(from, end), this.length);
    else for (let i = from, at = this.length; i < end; i++, at++) this.bytes[at] = source[i]!;
    this.length += end - from;
  }

  /** Leaves room for a length, most often enough; what is written next is what it is of. */
  beginLength(): number {
    this.byte(0);
    return this.length;
  }

  /** @param from what `beginLength` gave */
  endLength(from: number): void {
    const length = this.length - from;
    // Growing keeps what is before the end alone: there is room before the end is put back.
    this.reserve(varintBytesMax);
    let more = 0;
    for (let rest = length; rest >= 128; rest = Math.floor(rest / 128)) more++;
    if (more > 0) {
      this.bytes.copyWithin(from + more, from, this.length);
    }
    this.length = from - 1;
    this.varint(length);
    this.length += length;
  }

  /** A copy. */
  finish(): Uint8Array<ArrayBuffer> {
    return this.bytes.slice(0, this.length);
  }
}
