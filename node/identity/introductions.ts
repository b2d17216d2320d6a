/**
 * Tells the nodes that own shards with this one what its data folder is, again and again, and asks
 * them when the key-value store cannot be asked.
 */
import type { Introduction, NodeService } from '#cluster/node/service.ts';
import { retiredOwners } from '#cluster/placement/handover.ts';
import type { Instance, Placement } from '#cluster/placement/placement.ts';
import { majority } from '#cluster/session/consistency.ts';
import type { Env } from '#lib/env/env.ts';
import { ChildSignal } from '#lib/env/wait.ts';

/** Nodes that are told; without the others' word a start waits for the key-value store. */
const nodesMax = 256;
const nodesAtOnce = 8;
const answerMillisMax = 1_000;

export interface IntroductionsOptions {
  readonly env: Env;
  readonly instanceId: string;
  readonly nodeServiceOf: (instance: Instance) => Pick<NodeService, 'health'>;
}

export class Introductions {
  readonly #options: IntroductionsOptions;

  constructor(options: IntroductionsOptions) {
    this.#options = options;
  }

  /** Those that do not hear it are told the next time. */
  async tell(placement: Placement | null, own: Introduction, signal: AbortSignal): Promise<void> {
    await this.#ask(placement, { ...own, asks: false }, signal);
  }

  /**
   * Whether so many of the other owners of each shard of this node vouch for its folder that one of
   * them is among those who acknowledged any write of it.
   */
  async isVouchedFor(
    placement: Placement | null,
    own: Introduction,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (placement === null) return false;
    const vouchers = await this.#ask(placement, { ...own, asks: true }, signal);
    const needed = majority(placement.replicaFactor);
    const counts = new Map(this.#shards(placement).map((shard) => [shard, 0]));
    // Who has handed a shard over is the same replica as who has it now.
    const retired = retiredOwners(placement);
    for (const { id, shards } of placement.instances) {
      if (!vouchers.has(id)) continue;
      for (const shard of shards) {
        const count = counts.get(shard.id);
        const isReplica = shard.state !== 'INITIALIZING' && retired.get(shard.id)?.has(id) !== true;
        if (count !== undefined && isReplica) counts.set(shard.id, count + 1);
      }
    }
    return counts.size > 0 && [...counts.values()].every((count) => count >= needed);
  }

  /** Those who own shards with this node. */
  others(placement: Placement | null): Instance[] {
    if (placement === null) return [];
    const shards = new Set(this.#shards(placement));
    return placement.instances
      .filter(
        (other) =>
          other.id !== this.#options.instanceId && other.shards.some(({ id }) => shards.has(id)),
      )
      .slice(0, nodesMax);
  }

  #shards({ instances }: Placement): number[] {
    const own = instances.find(({ id }) => id === this.#options.instanceId);
    return (own?.shards ?? []).map(({ id }) => id);
  }

  /** @returns who vouches */
  async #ask(
    placement: Placement | null,
    own: Introduction,
    signal: AbortSignal,
  ): Promise<ReadonlySet<string>> {
    const { env, nodeServiceOf } = this.#options;
    const vouchers = new Set<string>();
    const next = this.others(placement).values();
    const work = async (): Promise<void> => {
      for (const peer of next) {
        const asking = new ChildSignal(signal);
        try {
          const deadline = env.clock.deadline(answerMillisMax, asking.signal);
          const answer = await nodeServiceOf(peer).health(deadline, own);
          if (answer.instanceId === peer.id && answer.vouches === true) vouchers.add(peer.id);
        } catch {
          // It does not vouch.
        } finally {
          asking.end();
        }
        if (signal.aborted) return;
      }
    };
    await Promise.all(Array.from({ length: nodesAtOnce }, work));
    return vouchers;
  }
}
