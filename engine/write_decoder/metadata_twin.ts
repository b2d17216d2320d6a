/** Metadata of remote write, read at leisure: the plain twin of engine/write_decoder/kernel/remote_write/metadata.ts. */
import { Fields, type Range, wireBytes, wireVarint } from './wire_fields.ts';

export interface WireMetadata {
  /** By the number on the wire, of which the low 32 bits count. */
  readonly type: number;
  /** Of a family; empty in version 2, where the series has it. */
  readonly name: Uint8Array;
  readonly help: Uint8Array;
  readonly unit: Uint8Array;
  /** Texts of the request are named that are not there. */
  readonly isUnresolved: boolean;
}

const noBytes = new Uint8Array(0);

/** A MetricMetadata of version 1. @throws {Malformed} */
export function readFamily(bytes: Uint8Array, [start, end]: Range): WireMetadata {
  const metadata = { type: 0, name: noBytes, help: noBytes, unit: noBytes, isUnresolved: false };
  const fields = new Fields(bytes, start, end);
  const text = (): Uint8Array => {
    fields.expect(wireBytes);
    return bytes.subarray(...fields.range()) as Uint8Array<ArrayBuffer>;
  };
  while (fields.next()) {
    if (fields.number === 1) metadata.type = takeType(fields);
    else if (fields.number === 2) metadata.name = text() as Uint8Array<ArrayBuffer>;
    else if (fields.number === 4) metadata.help = text() as Uint8Array<ArrayBuffer>;
    else if (fields.number === 5) metadata.unit = text() as Uint8Array<ArrayBuffer>;
    else fields.skip();
  }
  return metadata;
}

/** The Metadata of a series of version 2; null when it says nothing. @throws {Malformed} */
export function readMetadata(
  bytes: Uint8Array,
  [start, end]: Range,
  symbols: readonly Uint8Array[],
): WireMetadata | null {
  let type = 0n;
  let help = 0n;
  let unit = 0n;
  const fields = new Fields(bytes, start, end);
  while (fields.next()) {
    if (fields.number !== 1 && fields.number !== 3 && fields.number !== 4) {
      fields.skip();
      continue;
    }
    fields.expect(wireVarint);
    const value = fields.varint();
    if (fields.number === 1) type = value;
    else if (fields.number === 3) help = value;
    else unit = value;
  }
  if (type === 0n && help === 0n && unit === 0n) return null;
  const known = BigInt(symbols.length);
  const isUnresolved = help >= known || unit >= known;
  const textOf = (reference: bigint): Uint8Array =>
    isUnresolved ? noBytes : symbols[Number(reference)]!;
  return {
    type: Number(BigInt.asUintN(32, type)),
    name: noBytes,
    help: textOf(help),
    unit: textOf(unit),
    isUnresolved,
  };
}

function takeType(fields: Fields): number {
  fields.expect(wireVarint);
  return Number(BigInt.asUintN(32, fields.varint()));
}
