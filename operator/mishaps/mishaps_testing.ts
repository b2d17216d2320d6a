/** What tests of mishaps have in common. */
import { World } from '../world_testing.ts';

export type Json = any;

export const forever: AbortSignal = new AbortController().signal;

export interface PassOptions {
  readonly millis?: number;
  /** After the world has moved on: what it does not model. */
  readonly then?: () => void;
}

export async function passes(
  world: World,
  count: number,
  { millis = 5_000, then = () => {} }: PassOptions = {},
): Promise<void> {
  for (let pass = 0; pass < count; pass++) {
    await world.reconcile().catch(() => {});
    await world.clock.pass(millis);
    await world.advance();
    then();
  }
}

export const writesLike = (world: World, pattern: RegExp): string[] =>
  world.kube.writes.filter((write) => pattern.test(write));

export const claim = (world: World, name: string): Json =>
  world.kube.find('PersistentVolumeClaim', name);

export const stalled = (world: World): Json => {
  const { status, reason, message } = world.condition('Stalled') ?? {};
  return status === 'True' ? { reason, message } : null;
};

/** The disk of a pod is gone, and its member answers on an empty one, as a leader may that was killed. */
export function forgetData(world: World, pod: string): void {
  const { metadata, ...rest } = structuredClone(claim(world, `data-${pod}`));
  const { uid: _, ...unnamed } = metadata;
  world.kube.remove({ ...rest, metadata });
  world.kube.store({ ...rest, metadata: unnamed });
}

export function storeStatus(world: World, pod: string, status: object): void {
  const live = world.kube.find('Pod', pod);
  if (live !== undefined) world.kube.store({ ...live, status });
}

export function annotatePod(world: World, name: string, key: string): void {
  const pod = structuredClone(world.kube.find('Pod', name)) as Json;
  pod.metadata.annotations = { ...pod.metadata.annotations, [key]: 'true' };
  world.kube.store(pod);
}

export const snapshotsOn = {
  replicas: 3,
  snapshots: { schedule: '*/10 * * * *', keep: 3 },
} as const;
export const members: readonly string[] = ['c-etcd-0', 'c-etcd-1', 'c-etcd-2'];
export const snapshot = '20260101T000000Z.db';

export async function loseAllOfEtcd(world: World): Promise<void> {
  await world.loseEtcd();
  for (const name of members) world.loseVolume(name);
  world.coordinatorUp = false;
}
