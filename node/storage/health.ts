/** What a node says of itself to who asks for its health. */
import type { Introduction, NodeHealth } from '#cluster/node/service.ts';
import type { Env } from '#lib/env/env.ts';
import { type FormatLevels, formatLevelNewest } from '#lib/format_level.ts';
import type { DoubtLedger } from '../doubt/ledger.ts';
import type { NodeIdentity } from '../identity/node_identity.ts';
import type { Witness } from '../identity/witness.ts';
import type { Commitlog } from '../persist/commitlog/commitlog.ts';
import type { Deletions } from './deletions/deletions.ts';
import type { NamespaceState } from './namespace/namespace.ts';
import type { SampleNamespaces } from './namespace/sample_namespaces.ts';
import type { ShardTable } from './namespace/shards.ts';
import type { ReaderLevels } from './read/reader_levels.ts';

/** Of the database. */
export interface HealthParts {
  readonly env: Env;
  readonly identity: NodeIdentity;
  readonly instanceId: string;
  readonly isBootstrapped: boolean;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
  readonly sampleNamespaces: SampleNamespaces;
  readonly shards: ShardTable;
  readonly commitlog: Commitlog;
  readonly deletions: Deletions;
  readonly doubts: DoubtLedger;
  readonly formats: FormatLevels;
  readonly readers: ReaderLevels;
  readonly witness: Witness;
  readonly lineageId: string;
}

/** @param of who asks, when it says that */
export function healthOf(parts: HealthParts, of: Introduction | null): NodeHealth {
  const { env, identity, instanceId, shards, commitlog, sampleNamespaces, formats, readers } =
    parts;
  return {
    ok: true,
    status: shards.counts ? 'up' : 'the data folder is not checked yet',
    bootstrapped: parts.isBootstrapped,
    writesRefused: commitlog.refusal(),
    instanceId,
    incarnation: identity.incarnation,
    bootCount: identity.boot,
    placementVersion: shards.version,
    namespacesRevision: sampleNamespaces.revision,
    lineageId: sampleNamespaces.lineageId,
    unixNanos: env.clock.nowNanos(),
    retires: true,
    formatLevel: formatLevelNewest,
    formatLevelWritten: formats.level(),
    formatLevelOfReaders: readers.lowest(),
    vouches: of !== null && hears(parts, of),
    ...lackingOf(parts),
    blocksLost: parts.doubts.counts.blocksLost,
  };
}

/** What is damaged or in doubt here: other owners give it back. */
function lackingOf({
  namespaces,
  doubts,
}: HealthParts): Pick<NodeHealth, 'blocksLacking' | 'shardsLacking'> {
  const shardsLacking = new Set<number>();
  let blocksLacking = 0;
  for (const { name, readyShards } of namespaces.values()) {
    const lacking = new Map(readyShards.lacking());
    for (const shard of doubts.shardsOf(name)) {
      const starts = doubts.blocksOf(name, shard);
      lacking.set(shard, starts.union(lacking.get(shard) ?? new Set()));
    }
    for (const [shard, starts] of lacking) {
      shardsLacking.add(shard);
      blocksLacking += starts.size;
    }
  }
  return { blocksLacking, shardsLacking: [...shardsLacking].sort((a, b) => a - b) };
}

/** @returns whether this node vouches for the folder of another one that asks */
function hears(parts: HealthParts, of: Introduction): boolean {
  const { shards, witness, lineageId, deletions } = parts;
  if (!of.asks) {
    witness.note(of);
    return false;
  }
  const { version, counts } = shards;
  const isSame = of.placementVersion === version && of.lineageId === lineageId;
  // What was deleted while it was away it would serve.
  const hasDeleted = of.deletionSequence >= deletions.knownSequence;
  return counts && isSame && hasDeleted && witness.vouchesFor(of);
}
