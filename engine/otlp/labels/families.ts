/** Metrics of OTLP as families: their names here, and their metadata. */
import { murmur3 } from '#lib/hashing/hash.ts';
import { type MetricType, metricTypes } from '../../typed/metadata.ts';
import { metadataMax, type MetadataColumns } from '../../write_decoder/core.ts';

export interface Family {
  /** '' for one that can have none. */
  readonly name: string;
  readonly type: MetricType;
  readonly unit: string;
  readonly nameBytes: Uint8Array;
  readonly helpBytes: Uint8Array;
  readonly unitBytes: Uint8Array;
  /** Below 2^53: equal of equal metadata. */
  readonly hash: number;
  /** Why its points are refused; '' when they are not. */
  readonly problem: string;
  readonly isDelta: boolean;
  /** Part of a body in which it came last; null for none. */
  seenIn: object | null;
}

export function familyOf(
  name: string,
  type: MetricType,
  help: string,
  unit: string,
  isDelta: boolean,
  problem: string,
): Family {
  const [nameBytes, helpBytes, unitBytes] = [name, help, unit].map((text) => Buffer.from(text));
  const all = Buffer.from([name, type, unit, help].join('\0'));
  return {
    name,
    type,
    unit,
    nameBytes: nameBytes!,
    helpBytes: helpBytes!,
    unitBytes: unitBytes!,
    hash: murmur3(all) * 2 ** 21 + (murmur3(all, 1) >>> 11),
    problem,
    isDelta,
    seenIn: null,
  };
}

/** As metadata of remote write 1 come. */
export function metadataOf(families: readonly Family[]): MetadataColumns | null {
  if (families.length === 0) return null;
  const of = (row: number): Family => families[row]!;
  return {
    count: Math.min(families.length, metadataMax),
    slot: () => 0,
    generation: () => 0,
    type: (row) => metricTypes.indexOf(of(row).type),
    isUnresolved: () => false,
    hash: (row) => of(row).hash,
    name: (row) => of(row).nameBytes,
    help: (row) => of(row).helpBytes,
    unit: (row) => of(row).unitBytes,
    leftOutCount: Math.max(0, families.length - metadataMax),
  };
}
