/**
 * What other nodes said last of their data folders. One that starts while the key-value store cannot
 * be reached has nobody else who could tell it from an older copy of itself.
 */
import type { Introduction } from '#cluster/node/service.ts';

/** Nodes that are remembered; of more the one that was heard longest ago is forgotten. */
const nodesMax = 4096;

export class Witness {
  /** By instance, the one that was heard longest ago first. */
  readonly #heard = new Map<string, Introduction>();

  note(of: Introduction): void {
    this.#heard.delete(of.instanceId);
    this.#heard.set(of.instanceId, of);
    for (const oldest of this.#heard.keys()) {
      if (this.#heard.size <= nodesMax) break;
      this.#heard.delete(oldest);
    }
  }

  /**
   * Whether the folder that asks is the one that introduced itself last, started again. It is not
   * known to be another one when this is false: what this process has heard may be old, or nothing.
   */
  vouchesFor(asker: Introduction): boolean {
    const heard = this.#heard.get(asker.instanceId);
    return (
      heard !== undefined &&
      heard.incarnation === asker.incarnation &&
      heard.bootCount < asker.bootCount &&
      (heard.mark === asker.mark || heard.mark === asker.markBefore)
    );
  }
}
