/**
 * What other nodes said last of their data folders. One that starts while the key-value store cannot
 * be reached has nobody else who could tell it from an older copy of itself.
 */
import type { Introduction } from '#cluster/node/service.ts';
import type { Clock } from '#lib/env/env.ts';

/** Nodes that are remembered; of more the one that was heard longest ago is forgotten. */
const nodesMax = 4096;
/** Who can introduces itself every ten seconds. */
const silentMillis = 15_000;

export class Witness {
  /** By instance, the one that was heard longest ago first. */
  readonly #heard = new Map<string, { readonly of: Introduction; readonly atMillis: number }>();
  readonly #clock: Pick<Clock, 'monotonicMillis'>;

  constructor(clock: Pick<Clock, 'monotonicMillis'>) {
    this.#clock = clock;
  }

  note(of: Introduction): void {
    this.#heard.delete(of.instanceId);
    this.#heard.set(of.instanceId, { of, atMillis: this.#clock.monotonicMillis() });
    for (const oldest of this.#heard.keys()) {
      if (this.#heard.size <= nodesMax) break;
      this.#heard.delete(oldest);
    }
  }

  /** Whether nothing was heard lately: it is away, or only this node does not hear it. */
  isSilent(instanceId: string): boolean {
    const heard = this.#heard.get(instanceId);
    return heard === undefined || this.#clock.monotonicMillis() - heard.atMillis > silentMillis;
  }

  /**
   * Whether the folder that asks is the one that introduced itself last, started again. It is not
   * known to be another one when this is false: what this process has heard may be old, or nothing.
   */
  vouchesFor(asker: Introduction): boolean {
    const heard = this.#heard.get(asker.instanceId)?.of;
    return (
      heard !== undefined &&
      heard.incarnation === asker.incarnation &&
      heard.bootCount < asker.bootCount &&
      (heard.mark === asker.mark || heard.mark === asker.markBefore)
    );
  }
}
