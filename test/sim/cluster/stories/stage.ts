/** What stories are made of: each step of one is a call of these, of the cluster or of its world. */
import { type AdminOptions, plainRequest } from '#cluster/admin/placement_requests.ts';
import { promiseNamespaces } from '#cluster/admin/promises.ts';
import type { ReadConsistency } from '#cluster/session/consistency.ts';
import { type ClusterShape, namespace, seriesCount, type SimulatedCluster } from '../cluster.ts';
import type { Rows } from '../history.ts';
import { seriesName, type SimulatedRow } from '../series.ts';
import type { SimulatedCoordinator, SimulatedNode } from '../world.ts';
import { requestSignal } from '../request_signal.ts';

export interface Story {
  /** Words with hyphens between them. */
  readonly name: string;
  /** Number of the finding. */
  readonly issue: number;
  /** What it says when the product is wrong; any other error is a mistake of the story. */
  readonly wrong: RegExp;
  /** Ends well when the product does what its users rely on; else the cluster fails. */
  tell(cluster: SimulatedCluster): Promise<void>;
}

export const forced: AdminOptions = { ...plainRequest, force: true };

/** Long enough for whatever a cluster does by itself against damage. */
export const repairSeconds = 60;
/** So long after a row its block is surely in filesets. */
export const flushSeconds = 90;
/** How far back stories read. */
const readMillis = 200_000;
const stepSecondsMax = 120;

/** Nodes a, b and c, each of its own isolation group, with all shards each. */
export async function foundThree(
  cluster: SimulatedCluster,
  more: Partial<ClusterShape> = {},
): Promise<void> {
  const shape = { nodes: ['a', 'b', 'c'], coordinators: 1, numShards: 1 };
  // What the stories tell would be mended before they read.
  const options = { repairEnabled: false, ...more.options };
  await cluster.found({ ...shape, ...more, options });
}

export function nodeOf({ world }: SimulatedCluster, id: string): SimulatedNode {
  return world.nodes.get(id)!;
}

export function reader({ world }: SimulatedCluster, index = 0): SimulatedCoordinator {
  return world.coordinators[index]!;
}

export function seconds({ world }: SimulatedCluster, count: number): Promise<void> {
  return world.time.sleep(count * 1000);
}

/** Waits for something that has to come for the story to go on. */
export async function until(
  { world }: SimulatedCluster,
  what: string,
  holds: () => boolean,
): Promise<void> {
  const late = (): void => world.time.fail(new Error(`the story cannot go on: ${what}`));
  const timer = world.time.after(stepSecondsMax * 1000, late);
  await world.time.until(holds);
  timer.cancel();
  world.trace(what);
}

export function isWhole({ runtime }: SimulatedNode): boolean {
  return runtime?.database.isBootstrapped === true;
}

/** Turns a node on and waits until it serves. */
export async function comesBack(cluster: SimulatedCluster, id: string): Promise<void> {
  const node = nodeOf(cluster, id);
  cluster.world.turnOn(node);
  await until(cluster, `${id} is back`, () => isWhole(node));
}

/** Another node, which runs and is not in the placement yet. */
export async function joins(cluster: SimulatedCluster, id: string, group: string): Promise<void> {
  const node = cluster.world.addNode(id, group);
  await until(cluster, `${id} runs`, () => node.runtime?.database.isLoaded === true);
}

/** One row of each series, of now. */
export function rowsOfNow({ world }: SimulatedCluster, value: number): SimulatedRow[] {
  const timeMillis = Math.floor(world.wallMillis);
  return Array.from({ length: seriesCount }, (_, series) => ({ series, timeMillis, value }));
}

/** Writes rows, which must be acknowledged for the story to go on. */
export async function acknowledged(
  cluster: SimulatedCluster,
  rows: readonly SimulatedRow[],
  by: SimulatedCoordinator = reader(cluster),
): Promise<void> {
  const outcomes = await cluster.write(by, rows);
  if (outcomes.every((outcome) => outcome === 'acknowledged')) return;
  throw new Error(`the story cannot go on: rows are ${outcomes.join()}`);
}

/** Writes rows that a node misses, since it is away just then. */
export async function acknowledgedWithout(
  cluster: SimulatedCluster,
  id: string,
  rows: readonly SimulatedRow[],
): Promise<void> {
  cluster.world.turnOff(nodeOf(cluster, id), false);
  await acknowledged(cluster, rows);
  await comesBack(cluster, id);
}

/** A read of everything in a namespace, held against what was acknowledged; null when it is refused. */
export function read(
  cluster: SimulatedCluster,
  by: SimulatedCoordinator = reader(cluster),
  consistency: ReadConsistency = 'majority',
  name: string = namespace,
): Promise<Rows | null> {
  const toMillis = Math.floor(cluster.world.wallMillis);
  const fromMillis = toMillis - readMillis;
  return cluster.read(by, { fromMillis, toMillis, series: null, consistency, namespace: name });
}

/** The same, and a refusal is wrong too. */
export async function answeredRead(
  cluster: SimulatedCluster,
  by: SimulatedCoordinator = reader(cluster),
): Promise<Rows | null> {
  const rows = await read(cluster, by);
  if (rows === null) cluster.fail('a majority read is refused');
  return rows;
}

export async function answeredReadOf(cluster: SimulatedCluster, name: string): Promise<void> {
  const rows = await read(cluster, reader(cluster), 'majority', name);
  if (rows === null) cluster.fail('a majority read is refused');
}

/** A majority of the replicas is there without this node: a read of them has everything. */
export async function answeredReadWithout(
  cluster: SimulatedCluster,
  id: string,
): Promise<Rows | null> {
  cluster.world.turnOff(nodeOf(cluster, id), false);
  return answeredRead(cluster);
}

export function valueIn(rows: Rows | null, { series, timeMillis }: SimulatedRow): number | null {
  const found = rows?.get(seriesName(series))?.find(([millis]) => millis === timeMillis);
  return found?.[1] ?? null;
}

export async function replace(
  cluster: SimulatedCluster,
  from: string,
  to: string,
  isForced = false,
): Promise<void> {
  const body = {
    leavingInstanceIDs: [from],
    candidates: [cluster.world.infoOf(nodeOf(cluster, to))],
  };
  const { admin } = reader(cluster);
  await admin.placementReplace(body, isForced ? forced : plainRequest, requestSignal());
  cluster.world.trace(`${from} is to be replaced by ${to}`);
}

/** Waits until the shards are AVAILABLE at their new owner, and whoever reads knows. */
export async function takesOver(
  cluster: SimulatedCluster,
  from: string,
  to: string,
  by: SimulatedCoordinator = reader(cluster),
): Promise<void> {
  await until(cluster, `${to} has taken over from ${from}`, () => {
    const instances = by.topology.view.placement?.instances ?? [];
    const shards = instances.find(({ id }) => id === to)?.shards ?? [];
    return (
      instances.every(({ id }) => id !== from) &&
      shards.length > 0 &&
      shards.every(({ state }) => state === 'AVAILABLE')
    );
  });
}

/** State of shard 0, as the node itself knows it. */
export function stateAt({ runtime }: SimulatedNode): string | undefined {
  return runtime?.database.shards.get(0)?.state;
}

/** All nodes have heard of all namespaces, and a coordinator has said so. */
export async function promised(cluster: SimulatedCluster): Promise<void> {
  const { admin, topology, process, nodeOf } = reader(cluster);
  const { world } = cluster;
  const { namespaces } = admin;
  const { clock } = process.env;
  const target = { namespaces, topology, clock, nodeOf };
  for (;;) {
    if (await promiseNamespaces(target, requestSignal())) break;
    await world.time.sleep(1_000);
  }
  world.trace('since when namespaces have every row is promised');
}

/** The instances that the stored placement names, each with the states of its shards. */
export function statesIn(cluster: SimulatedCluster): Map<string, string[]> {
  const instances = cluster.placement()?.instances ?? [];
  return new Map(instances.map(({ id, shards }) => [id, shards.map(({ state }) => state)]));
}
