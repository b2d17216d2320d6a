/** What the instances of a placement say of themselves, each asked by itself, so many at a time. */
import type { Clock } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { NodeHealth, NodeService } from '../node/service.ts';
import type { Instance } from '../placement/placement.ts';

export interface HealthTarget {
  readonly clock: Clock;
  /** The service of an instance; null where the nodes of the cluster cannot be asked. */
  readonly nodeOf: ((instance: Instance) => Pick<NodeService, 'health'>) | null;
}

/** What an instance says, or why it does not. */
export type InstanceHealth = NodeHealth | { readonly error: string };

/** One that says nothing in this time counts as one that cannot be reached. */
const healthMillisMax = 2_000;
/** Of 4096 instances that all hang the last one has its turn after some four minutes. */
const askedMax = 32;

/**
 * Healths by instance ID, in the order of `instances`.
 * @throws the reason of `signal`; no instance that fails
 */
export async function askHealths(
  target: HealthTarget,
  instances: readonly Instance[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, InstanceHealth>> {
  const healths = new Map<string, InstanceHealth>(
    instances.map(({ id }) => [id, { error: 'it was not asked' }]),
  );
  const left = instances.values();
  const ask = async (): Promise<void> => {
    for (const instance of left)
      healths.set(instance.id, await askHealth(target, instance, signal));
  };
  await Promise.all(Array.from({ length: Math.min(askedMax, instances.length) }, ask));
  return healths;
}

/** @throws the reason of `signal` */
export async function askHealth(
  { nodeOf, clock }: HealthTarget,
  instance: Instance,
  signal: AbortSignal,
): Promise<InstanceHealth> {
  if (nodeOf === null) {
    return { error: 'it is of another environment or zone: ask a coordinator of that' };
  }
  let health: NodeHealth;
  try {
    health = await nodeOf(instance).health(clock.deadline(healthMillisMax, signal));
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof TsdbError)) throw error;
    return { error: messageOf(error) };
  }
  return health.instanceId === instance.id
    ? health
    : { error: `instance ${health.instanceId} answers at its endpoint` };
}

/** Health of every instance as the admin API answers it. */
export interface HealthReport {
  readonly instances: Readonly<
    Record<
      string,
      | {
          readonly bootstrapped: boolean;
          readonly incarnation: string;
          readonly bootCount: number;
          readonly placementVersion: number;
          readonly writesRefused: string;
          readonly blocksLacking: number;
          readonly shardsLacking: readonly number[];
          readonly blocksLost: number;
          readonly formatLevel: number;
          readonly formatLevelWritten: number;
        }
      | { readonly error: string }
    >
  >;
}

/** @throws the reason of `signal` */
export async function healthReport(
  target: HealthTarget,
  instances: readonly Instance[],
  signal: AbortSignal,
): Promise<HealthReport> {
  const healths = await askHealths(target, instances, signal);
  return {
    instances: Object.fromEntries(
      [...healths].map(([id, health]) => {
        if ('error' in health) return [id, health];
        const { bootstrapped, incarnation, bootCount, placementVersion, writesRefused } = health;
        const { blocksLacking, shardsLacking, blocksLost, formatLevel, formatLevelWritten } =
          health;
        const said = { bootstrapped, incarnation, bootCount, placementVersion, writesRefused };
        const lacking = { blocksLacking, shardsLacking, blocksLost };
        return [id, { ...said, ...lacking, formatLevel, formatLevelWritten }];
      }),
    ),
  };
}
