/**
 * The references that a session keeps, by series table, instance and namespace: each takes 8 bytes a
 * slot, so of a million series, fifty instances and two namespaces 800 MB. Together they are
 * bounded. Where there is no room the series are named in full each time; what was not used for a
 * while makes room, and what is used does not, or nothing would be left of it before its next use.
 */
import type { Clock } from '#lib/env/env.ts';
import { referenceBytesMax, referenceIdleMillis } from '../limits.ts';
import { References } from './references.ts';
import type { SeriesTable } from './types.ts';

interface Kept {
  readonly references: References;
  readonly instanceId: string;
  readonly namespace: string;
  lastUsedMillis: number;
}

export class ReferenceTables {
  readonly #clock: Clock;
  readonly #bytesMax: number;
  readonly #numberOf = new WeakMap<SeriesTable, number>();
  #tableCount = 0;
  /** The least recently used ones first. */
  readonly #kept = new Map<string, Kept>();
  /** Of nobody: knows no series, and learns none. */
  readonly #none = new References();
  #bytes = 0;

  constructor(clock: Clock, bytesMax: number = referenceBytesMax) {
    this.#clock = clock;
    this.#bytesMax = bytesMax;
    this.#none.drop();
  }

  /** Memory of all that is kept. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Those of an instance and a namespace, with room for slots up to `slotMax`; some that know
   * nothing, and learn nothing, where there is no room.
   */
  of(series: SeriesTable, instanceId: string, namespace: string, slotMax: number): References {
    if (series.isOfOneWrite === true) return this.#none;
    const key = `${this.#numberFor(series)}\n${instanceId}\n${namespace}`;
    const now = this.#clock.monotonicMillis();
    const known = this.#kept.get(key);
    this.#kept.delete(key);
    const references = known?.references ?? new References((bytes) => (this.#bytes += bytes));
    const grows = references.bytesWith(slotMax) - (known === undefined ? 0 : references.bytes);
    if (grows > 0 && !this.#makeRoom(grows, now)) {
      references.drop();
      return this.#none;
    }
    references.reserve(slotMax);
    this.#kept.set(key, { references, instanceId, namespace, lastUsedMillis: now });
    return references;
  }

  /** Drops those of instances and namespaces that are no more. */
  retain(instances: ReadonlySet<string>, namespaces: { has(name: string): boolean }): void {
    for (const [key, { references, instanceId, namespace }] of this.#kept) {
      if (instances.has(instanceId) && namespaces.has(namespace)) continue;
      this.#kept.delete(key);
      references.drop();
    }
  }

  #makeRoom(bytes: number, now: number): boolean {
    for (const [key, { references, lastUsedMillis }] of this.#kept) {
      if (this.#bytes + bytes <= this.#bytesMax) return true;
      if (now - lastUsedMillis < referenceIdleMillis) return false;
      this.#kept.delete(key);
      references.drop();
    }
    return this.#bytes + bytes <= this.#bytesMax;
  }

  #numberFor(series: SeriesTable): number {
    let number = this.#numberOf.get(series);
    if (number === undefined) this.#numberOf.set(series, (number = ++this.#tableCount));
    return number;
  }
}
