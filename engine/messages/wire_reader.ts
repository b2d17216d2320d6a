/** Numbers of protobuf's wire form, as pairs of 32 bits: a message makes no garbage. */
import { badRequest } from '#lib/errors.ts';

export const wireType = { varint: 0, fixed64: 1, delimited: 2, fixed32: 5 } as const;

export class WireReader {
  bytes: Uint8Array = new Uint8Array(0);
  view: DataView = new DataView(this.bytes.buffer);
  at = 0;
  /** Of the number that was read last: its lower and its upper 32 bits, unsigned. */
  low = 0;
  high = 0;

  open(bytes: Uint8Array): void {
    if (bytes !== this.bytes) {
      this.bytes = bytes;
      this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    }
    this.at = 0;
  }

  /** @param end nothing at or after it is read */
  varint(end: number): void {
    let low = 0;
    let high = 0;
    for (let i = 0; i < 10; i++) {
      if (this.at >= end) throw truncated();
      const byte = this.bytes[this.at++]!;
      const bits = byte & 127;
      if (i < 4) low |= bits << (7 * i);
      else if (i === 4) {
        low |= bits << 28;
        high = bits >>> 4;
      } else high |= bits << (7 * i - 32);
      if (byte < 128) {
        this.low = low >>> 0;
        this.high = high >>> 0;
        return;
      }
    }
    throw badRequest('a number is longer than ten bytes');
  }

  fixed32(end: number): void {
    if (end - this.at < 4) throw truncated();
    this.low = this.view.getUint32(this.at, true);
    this.high = 0;
    this.at += 4;
  }

  fixed64(end: number): void {
    if (end - this.at < 8) throw truncated();
    this.low = this.view.getUint32(this.at, true);
    this.high = this.view.getUint32(this.at + 4, true);
    this.at += 8;
  }

  /** A length, and where what it is of ends. */
  delimited(end: number): number {
    this.varint(end);
    if (this.high !== 0 || this.low > end - this.at) throw truncated();
    return this.at + this.low;
  }

  /** Reads past a value of the wire type. */
  skip(type: number, end: number): void {
    if (type === wireType.varint) this.varint(end);
    else if (type === wireType.fixed64) this.fixed64(end);
    else if (type === wireType.delimited) this.at = this.delimited(end);
    else if (type === wireType.fixed32) this.fixed32(end);
    else throw badRequest(`groups are not supported: wire type ${type}`);
  }
}

function truncated(): Error {
  return badRequest('it ends in the middle of a field');
}
