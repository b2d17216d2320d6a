/** Metadata of families that did not come by remote write, as those of its version 1. */
import { murmur3 } from '#lib/hashing/hash.ts';
import { type MetricType, metricTypes } from '../typed/metadata.ts';
import { metadataMax, type MetadataColumns } from './core.ts';

export interface ToldMetadata {
  readonly type: MetricType;
  readonly nameBytes: Uint8Array;
  readonly helpBytes: Uint8Array;
  readonly unitBytes: Uint8Array;
  /** Below 2^53: equal of equal metadata. */
  readonly hash: number;
}

export function toldMetadata(
  name: string,
  type: MetricType,
  help: string,
  unit: string,
): ToldMetadata {
  const [nameBytes, helpBytes, unitBytes] = [name, help, unit].map((text) => Buffer.from(text));
  const all = Buffer.from([name, type, unit, help].join('\0'));
  return {
    type,
    nameBytes: nameBytes!,
    helpBytes: helpBytes!,
    unitBytes: unitBytes!,
    hash: murmur3(all) * 2 ** 21 + (murmur3(all, 1) >>> 11),
  };
}

/** Null for none. */
export function metadataOf(families: readonly ToldMetadata[]): MetadataColumns | null {
  if (families.length === 0) return null;
  const of = (row: number): ToldMetadata => families[row]!;
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
