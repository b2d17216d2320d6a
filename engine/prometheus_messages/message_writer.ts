/**
 * Protobuf messages of Prometheus' protocols as bytes, by hand: sample values are copied as words, so
 * that a stale marker, a NaN with a payload, passes unchanged.
 */
import type { Tag } from '#lib/tags.ts';

/** A message under construction; grows by doubling. */
export class MessageWriter {
  #bytes: Uint8Array;
  #view: DataView;
  #length = 0;

  constructor(bytesExpected = 1024) {
    this.#bytes = new Uint8Array(bytesExpected);
    this.#view = new DataView(this.#bytes.buffer);
  }

  get byteLength(): number {
    return this.#length;
  }

  /** The bytes so far: a view that the next write may leave behind. */
  finish(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  clear(): void {
    this.#length = 0;
  }

  #reserve(count: number): void {
    if (this.#length + count <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(this.#bytes.length * 2, this.#length + count));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
    this.#view = new DataView(larger.buffer);
  }

  /** @param value whole, at least 0, below 2^53 */
  uvarint(value: number): void {
    this.#reserve(8);
    let rest = value;
    while (rest >= 128) {
      this.#bytes[this.#length++] = (rest % 128) | 128;
      rest = Math.floor(rest / 128);
    }
    this.#bytes[this.#length++] = rest;
  }

  /** A field of type int64; negative numbers take ten bytes, as the format has it. */
  int64Field(number: number, value: number): void {
    this.uvarint(number * 8);
    if (value >= 0) {
      this.uvarint(value);
      return;
    }
    this.uvarintBig(BigInt.asUintN(64, BigInt(value)));
  }

  /** A field of type uint64. */
  uvarintField(number: number, value: bigint): void {
    this.uvarint(number * 8);
    this.uvarintBig(value);
  }

  /** @param value below 2^64 */
  uvarintBig(value: bigint): void {
    if (value < 2n ** 53n) {
      this.uvarint(Number(value));
      return;
    }
    this.#reserve(10);
    let rest = value;
    for (; rest >= 128n; rest >>= 7n) this.#bytes[this.#length++] = Number(rest & 127n) | 128;
    this.#bytes[this.#length++] = Number(rest);
  }

  bytesField(number: number, bytes: Uint8Array): void {
    this.bytesHead(number, bytes.length);
    this.raw(bytes);
  }

  /** What stands in front of so many bytes of a field. */
  bytesHead(number: number, length: number): void {
    this.uvarint(number * 8 + 2);
    this.uvarint(length);
  }

  raw(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  /** A field of type double from the two words of its bits. */
  doubleField(number: number, low: number, high: number): void {
    this.uvarint(number * 8 + 1);
    this.#reserve(8);
    this.#view.setUint32(this.#length, low, true);
    this.#view.setUint32(this.#length + 4, high, true);
    this.#length += 8;
  }

  uint32BigEndian(value: number): void {
    this.#reserve(4);
    this.#view.setUint32(this.#length, value, false);
    this.#length += 4;
  }
}

/** Labels of a series, each as field 1 of the message that holds it. */
export function writeLabels(writer: MessageWriter, tags: readonly Tag[]): void {
  const label = new MessageWriter(128);
  const encoder = new TextEncoder();
  for (const { name, value } of tags) {
    label.clear();
    label.bytesField(1, encoder.encode(name));
    label.bytesField(2, encoder.encode(value));
    writer.bytesField(1, label.finish());
  }
}
