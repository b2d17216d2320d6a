/** Protobuf messages of OTLP, walked in place: a message's fields are noted by their numbers, nothing is copied. */
import { TsdbError } from '#lib/errors.ts';

/** How a field is written. */
export const wireType = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;
/** Of a field that is passed over. */
const unknown = 255;

/** Numbers of fields that OTLP has in messages that are walked are below. */
export const fieldsMax = 16;

/** What fields of a message are written as, by their numbers: those that are not named are passed over. */
export function fieldTypes(types: Readonly<Record<number, number>>): Uint8Array {
  const all = new Uint8Array(fieldsMax).fill(unknown);
  for (const [number, type] of Object.entries(types)) all[Number(number)] = type;
  return all;
}

/** A message is none. */
export class Malformed extends TsdbError {
  constructor() {
    super('BAD_REQUEST', 'cannot read OTLP body: the protobuf message is malformed');
  }
}

export function malformed(): Error {
  return new Malformed();
}

export class Wire {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  /** The bytes, for texts. */
  readonly buffer: Buffer;
  /** Behind what was read last. */
  at = 0;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  /** A varint as an unsigned number, rounded beyond 2^53. @throws {Malformed} */
  varint(at: number, end: number): number {
    const { bytes } = this;
    let value = 0;
    let scale = 1;
    for (let length = 0; length < 10 && at < end; length++) {
      const byte = bytes[at++]!;
      value += (byte & 127) * scale;
      if (byte < 128) {
        this.at = at;
        return value;
      }
      scale *= 128;
    }
    throw malformed();
  }

  /** Length of a field of bytes, checked to lie before `end`; `at` is where they begin. */
  length(at: number, end: number): number {
    const byte = at < end ? this.bytes[at]! : 255;
    if (byte < 128) {
      this.at = at + 1;
      if (byte > end - this.at) throw malformed();
      return byte;
    }
    const length = this.varint(at, end);
    if (length > end - this.at) throw malformed();
    return length;
  }

  /** Passes over the value of a field. @returns what follows */
  skip(at: number, end: number, type: number): number {
    switch (type) {
      case wireType.varint:
        this.varint(at, end);
        return this.at;
      case wireType.fixed64:
        if (end - at < 8) throw malformed();
        return at + 8;
      case wireType.bytes: {
        const length = this.length(at, end);
        return this.at + length;
      }
      case wireType.fixed32:
        if (end - at < 4) throw malformed();
        return at + 4;
      default:
        throw malformed();
    }
  }
}

/** Where the fields of one message stand. It is used again for the next one. */
export class Places {
  /** Where the value of the last field of a number begins; -1 when there is none. */
  readonly value: Int32Array = new Int32Array(fieldsMax);
  /** From the key of the first one to the end of the last one. */
  readonly first: Int32Array = new Int32Array(fieldsMax);
  readonly end: Int32Array = new Int32Array(fieldsMax);
  readonly count: Int32Array = new Int32Array(fieldsMax);
  /** Bits of numbers whose fields do not stand one after the other. */
  scattered = 0;

  /** @throws {Malformed} when the message in [at, end) is malformed */
  read(wire: Wire, at: number, end: number, types: Uint8Array): void {
    const { bytes } = wire;
    this.value.fill(-1);
    this.count.fill(0);
    this.scattered = 0;
    while (at < end) {
      const keyAt = at;
      let key = bytes[at++]!;
      if (key > 127) {
        key = wire.varint(keyAt, end);
        at = wire.at;
      }
      const type = key & 7;
      const number = Math.floor(key / 8);
      if (number === 0) throw malformed();
      const expected = number < fieldsMax ? types[number]! : unknown;
      let valueAt = at;
      if (type === wireType.fixed64) {
        if (end - at < 8) throw malformed();
        at += 8;
      } else if (type === wireType.bytes) {
        const length = wire.length(at, end);
        valueAt = wire.at;
        at = valueAt + length;
      } else at = wire.skip(at, end, type);
      if (expected === unknown) continue;
      if (expected !== type) throw malformed();
      if (this.count[number]!++ === 0) this.first[number] = keyAt;
      else if (this.end[number] !== keyAt) this.scattered |= 1 << number;
      this.value[number] = valueAt;
      this.end[number] = at;
    }
  }

  has(number: number): boolean {
    return this.count[number]! > 0;
  }
}
