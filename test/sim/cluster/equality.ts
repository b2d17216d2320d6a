/**
 * Whether the replicas of a shard have the same rows: series, times and values. A majority read is
 * right without that; it is what comparing replicas is for.
 */
import { isOfWindows } from '#cluster/namespaces/samples.ts';
import type { Placement } from '#cluster/placement/placement.ts';
import { samplesOf } from '#node/storage/database_testing.ts';
import type { SimulatedCluster } from './cluster.ts';
import type { SimulatedNode } from './world.ts';
import { requestSignal } from './request_signal.ts';
import { floatsOf, textOf, windowsOf } from './windows/rows.ts';

const nanosPerMilli = 1_000_000n;
const lookMillis = 5_000;

/** By series, then by Unix nanoseconds. */
type Replica = ReadonlyMap<string, ReadonlyMap<bigint, number | string>>;

/**
 * Compares all rows that do not expire soon, which takes some time of the cluster.
 * @returns the first difference in words; null when there is none
 */
export async function replicaDifference(cluster: SimulatedCluster): Promise<string | null> {
  const { nodes } = cluster.world;
  const placement = cluster.placement()!;
  for (const namespace of cluster.namespaces().keys()) {
    for (let shard = 0; shard < placement.numShards; shard += 1) {
      const owners = ownersOf(placement, shard).map((id) => nodes.get(id)!);
      const [first, ...others] = owners;
      const replica = await replicaOf(cluster, first!, namespace, shard);
      for (const other of others) {
        const difference =
          differenceOf(replica, await replicaOf(cluster, other, namespace, shard)) ?? null;
        if (difference === null) continue;
        return `${first!.id} and ${other.id} differ in shard ${shard} of ${namespace}: ${difference}`;
      }
    }
  }
  return null;
}

/** Whoever compares replicas has some time for it; the run fails when they stay different. */
export async function becomeEqual(cluster: SimulatedCluster, millisMax: number): Promise<void> {
  const { time } = cluster.world;
  const endMillis = time.nowMillis + millisMax;
  for (;;) {
    const difference = await replicaDifference(cluster);
    if (difference === null) return;
    if (time.nowMillis > endMillis) cluster.fail(`replicas stay different: ${difference}`);
    await time.sleep(lookMillis);
  }
}

function ownersOf({ instances }: Placement, shard: number): string[] {
  return instances
    .filter(({ shards }) => shards.some(({ id }) => id === shard))
    .map(({ id }) => id);
}

async function replicaOf(
  cluster: SimulatedCluster,
  { runtime }: SimulatedNode,
  namespace: string,
  shard: number,
): Promise<Replica> {
  const { database } = runtime!;
  const { fromMillis, toMillis } = cluster.keptMillis(namespace);
  const response = await database.fetch(
    {
      namespace,
      placementVersion: database.shards.version,
      query: { kind: 'all' },
      startNanos: BigInt(fromMillis) * nanosPerMilli,
      endNanos: BigInt(toMillis) * nanosPerMilli,
      shards: Uint32Array.of(shard),
      seriesLimit: 0,
      fetchData: true,
    },
    requestSignal(),
  );
  if (isOfWindows(cluster.namespaces().get(namespace)!)) {
    const rows = new Map<string, Map<bigint, number | string>>(floatsOf(response.bundle));
    for (const [series, windows] of windowsOf(response.bundle)) {
      const texts = [...windows].map(
        ([millis, seen]) => [BigInt(millis) * nanosPerMilli, textOf(seen)] as const,
      );
      rows.set(series, new Map([...(rows.get(series) ?? []), ...texts]));
    }
    // Chunks may have some that expire, or that have not come everywhere.
    const isKept = ([nanos]: readonly [bigint, unknown]): boolean =>
      nanos >= BigInt(fromMillis) * nanosPerMilli && nanos < BigInt(toMillis) * nanosPerMilli;
    return new Map([...rows].map(([series, some]) => [series, new Map([...some].filter(isKept))]));
  }
  return new Map([...samplesOf(response)].map(([series, rows]) => [series, new Map(rows)]));
}

function differenceOf(one: Replica, other: Replica): string | null {
  for (const series of new Set([...one.keys(), ...other.keys()])) {
    const ones = one.get(series) ?? new Map<bigint, number | string>();
    const others = other.get(series) ?? new Map<bigint, number | string>();
    for (const nanos of new Set([...ones.keys(), ...others.keys()])) {
      const value = ones.get(nanos);
      const otherValue = others.get(nanos);
      if (Object.is(value, otherValue)) continue;
      const millis = nanos / nanosPerMilli;
      return `${series} @ ${millis} is ${value ?? 'missing'} and ${otherValue ?? 'missing'}`;
    }
  }
  return null;
}
