/**
 * Remembers which wanted object made a live one, for those that the server writes otherwise than we
 * do. Kept in the process only: after a start the object is applied once more, which changes
 * nothing.
 */
import type { KubeObject } from '../resource/kube_objects.ts';

const entriesMax = 10_000;

export class AppliedMemory {
  readonly #entries = new Map<string, { readonly state: string; readonly hash: string }>();

  /** @param live the server's answer to the apply */
  note(live: KubeObject, hash: string): void {
    const uid = live.metadata.uid ?? '';
    this.#entries.delete(uid);
    this.#entries.set(uid, { state: stateOf(live), hash });
    if (this.#entries.size > entriesMax) this.#entries.delete(this.#entries.keys().next().value!);
  }

  /** Hash of the wanted object that made this state; null when another did, or nobody knows. */
  hashOf(live: KubeObject): string | null {
    const entry = this.#entries.get(live.metadata.uid ?? '');
    return entry?.state === stateOf(live) ? entry.hash : null;
  }
}

/** The generation where there is one: it does not change with the status. */
const stateOf = ({ metadata }: KubeObject): string =>
  metadata.generation === undefined
    ? `version ${metadata.resourceVersion}`
    : `generation ${metadata.generation}`;
