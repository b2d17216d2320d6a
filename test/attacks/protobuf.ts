/** Protobuf, snappy and gRPC frames by hand, so that they can also be wrong. */

export function varint(value: number | bigint): Buffer {
  const bytes: number[] = [];
  let rest = BigInt(value);
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

/** A field of wire type 0. */
export function numberField(field: number, value: number | bigint): Buffer {
  return Buffer.concat([varint(field * 8), varint(value)]);
}

/** A field of wire type 2. */
export function bytesField(field: number, bytes: string | Uint8Array): Buffer {
  const payload = Buffer.from(bytes as Uint8Array);
  return Buffer.concat([varint(field * 8 + 2), varint(payload.length), payload]);
}

/** A field of wire type 1. */
export function doubleField(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleLE(value);
  return Buffer.concat([varint(field * 8 + 1), bytes]);
}

export interface SentSeries {
  readonly labels: Readonly<Record<string, string>>;
  readonly samples: readonly (readonly [timestampMillis: number, value: number])[];
}

/** One series of a remote write, version 1. */
export function seriesField({ labels, samples }: SentSeries): Buffer {
  const names = Object.keys(labels).sort();
  return bytesField(
    1,
    Buffer.concat([
      ...names.map((name) =>
        bytesField(1, Buffer.concat([bytesField(1, name), bytesField(2, labels[name]!)])),
      ),
      ...samples.map(([timestampMillis, value]) =>
        bytesField(2, Buffer.concat([doubleField(1, value), numberField(2, timestampMillis)])),
      ),
    ]),
  );
}

const literalBytesMax = 65_536;

/** A snappy block of literals. */
export function snappyLiterals(bytes: Uint8Array): Buffer {
  const parts: Uint8Array[] = [varint(bytes.length)];
  for (let at = 0; at < bytes.length; at += literalBytesMax) {
    const part = bytes.subarray(at, at + literalBytesMax);
    parts.push(Uint8Array.of(61 << 2, (part.length - 1) & 255, (part.length - 1) >> 8), part);
  }
  return Buffer.concat(parts);
}

/** A snappy block that is the unit (64 KiB at most) again and again: 21 times as long as it is sent. */
export function snappyRepeated(unit: Uint8Array, times: number): Buffer {
  const copyBytes = 64;
  const lengthBytes = unit.length * times;
  const rest = lengthBytes - unit.length;
  const copy = (length: number): number[] => [
    ((length - 1) << 2) | 2,
    unit.length & 255,
    unit.length >> 8,
  ];
  const copies = Buffer.alloc(3 * Math.floor(rest / copyBytes), Buffer.from(copy(copyBytes)));
  const head = [61 << 2, (unit.length - 1) & 255, (unit.length - 1) >> 8];
  const last = rest % copyBytes;
  return Buffer.concat([
    varint(lengthBytes),
    Buffer.from(head),
    unit,
    copies,
    Buffer.from(last > 0 ? copy(last) : []),
  ]);
}

/** A gRPC message with its prefix. */
export function grpcMessage(bytes: Uint8Array, isCompressed = false): Buffer {
  const prefix = Buffer.alloc(5);
  prefix[0] = isCompressed ? 1 : 0;
  prefix.writeUInt32BE(bytes.length, 1);
  return Buffer.concat([prefix, bytes]);
}

export const frameType = {
  headers: 1,
  resetStream: 3,
  settings: 4,
  ping: 6,
  continuation: 9,
} as const;

/** A frame of HTTP/2. */
export function frame(type: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = type;
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}
