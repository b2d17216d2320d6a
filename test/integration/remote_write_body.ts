/** Remote write bodies for tests: protobuf by hand, snappy with literals only. */

export interface TestSeries {
  readonly labels: Record<string, string>;
  readonly samples: readonly { readonly timestampMillis: number; readonly value: number }[];
}

function varint(target: number[], value: number): void {
  let rest = value;
  while (rest >= 128) {
    target.push((rest % 128) | 128);
    rest = Math.floor(rest / 128);
  }
  target.push(rest);
}

function field(target: number[], number: number, bytes: ArrayLike<number>): void {
  varint(target, number * 8 + 2);
  varint(target, bytes.length);
  for (let i = 0; i < bytes.length; i++) target.push(bytes[i]!);
}

/** Snappy block of a WriteRequest. */
export function remoteWriteBody(series: readonly TestSeries[]): Uint8Array {
  const request: number[] = [];
  for (const { labels, samples } of series) {
    const one: number[] = [];
    for (const name of Object.keys(labels).sort()) {
      const label: number[] = [];
      field(label, 1, Buffer.from(name));
      field(label, 2, Buffer.from(labels[name]!));
      field(one, 1, label);
    }
    for (const { timestampMillis, value } of samples) {
      const bits = Buffer.alloc(8);
      bits.writeDoubleLE(value);
      const sample = [9, ...bits];
      sample.push(16);
      varint(sample, timestampMillis);
      field(one, 2, sample);
    }
    field(request, 1, one);
  }
  return snappyLiterals(Uint8Array.from(request));
}

function snappyLiterals(bytes: Uint8Array): Uint8Array {
  const header: number[] = [];
  varint(header, bytes.length);
  const parts: Uint8Array[] = [Uint8Array.from(header)];
  for (let at = 0; at < bytes.length; at += 65_536) {
    const part = bytes.subarray(at, at + 65_536);
    parts.push(Uint8Array.of(61 << 2, (part.length - 1) & 255, (part.length - 1) >> 8), part);
  }
  return Buffer.concat(parts);
}
