/** What aggregators ask each other for: parts of outputs that somebody else adds up. */
import type { WindowPart } from '../../aggregation_rules/rollups/accumulators.ts';
import type { WindowsRange } from '../../aggregation_rules/rollups/map.ts';
import type { Output } from '../../aggregation_rules/rollups/outputs.ts';
import type { StoragePolicy } from '../../aggregation_rules/rules.ts';

export interface PartsRequest {
  readonly policy: StoragePolicy;
  readonly windows: WindowsRange;
  /** Whether rows that may come late are to be among them. */
  readonly isFinal: boolean;
  /** Of the store that storage's placement is in (kv/lineage.ts): another cluster has another one. */
  readonly storeLineage: string;
  /** Namespaces are to be known as of this revision of them, or a later one. */
  readonly namespacesRevision: number;
  readonly numStorageShards: number;
  /** Shards of storage whose series are meant, ascending. */
  readonly storageShards: readonly number[];
  /** Outputs are divided into so many shards by their hashes. */
  readonly numShards: number;
  /** Those that are asked for, ascending. */
  readonly shards: readonly number[];
}

/** One output in the windows in which it has rows. */
export interface OutputParts {
  readonly output: Output;
  /** Places of the windows. */
  readonly windows: Uint32Array;
  /** One for each of them. */
  readonly parts: readonly WindowPart[];
}

export interface PartsService {
  /** @throws {TsdbError} when some are missing: nothing is left out */
  parts(request: PartsRequest, signal: AbortSignal): Promise<readonly OutputParts[]>;
}

export const shardOfOutput = ({ hash }: Output, numShards: number): number => hash % numShards;
