/** A node takes newer placements and namespaces: what it gives up, what is parked first, and what is new. */
import type { Namespace, NamespaceRegistry } from '#cluster/namespaces/namespaces.ts';
import { type EndedNamespaces, hasEnded } from '#cluster/namespaces/numbers.ts';
import { instanceById, type Placement } from '#cluster/placement/placement.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Admission } from './admission/admission.ts';
import type { NamespaceRemoval } from './deletions/namespace_removal.ts';
import type { Holdings } from './parking/holdings.ts';
import type { ParkedData } from './parking/parked_data.ts';
import type { Parking } from './parking/parking.ts';
import type { Sequencer } from './write/sequencer.ts';
import type { NamespaceState } from './namespace/namespace.ts';
import type { ShardChange, ShardTable } from './namespace/shards.ts';

/** What came and went with a change of the topology. */
export interface TopologyChange extends ShardChange {
  readonly addedNamespaces: readonly NamespaceState[];
}

export interface AdoptionParts {
  readonly instanceId: string;
  readonly shards: ShardTable;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
  readonly sequencer: Sequencer;
  readonly admission: Admission;
  readonly removal: NamespaceRemoval;
  readonly holdings: Holdings;
  readonly parking: Parking;
  readonly parked: ParkedData;
  /** Whether what the folder held is in memory. */
  readonly isFilled: () => boolean;
  /** Whether what is on this disk is served. */
  readonly isLoaded: () => boolean;
  readonly addNamespace: (definition: Namespace) => NamespaceState;
  /** Rows come that the memory does not know. */
  readonly noteFiles: () => void;
}

export class Adoption {
  readonly #parts: AdoptionParts;
  /** Handed over, and not dropped yet. */
  readonly #handedOver = new Set<number>();

  constructor(parts: AdoptionParts) {
    this.#parts = parts;
  }

  /**
   * Takes a newer placement and the current namespaces, between two groups of writes. What was handed
   * over, or deleted, is forgotten and its files are removed; what was lost otherwise is not served any
   * more, and is to be parked (`parking`); what is new is empty and not ready. Calls must not overlap.
   * @param ended namespaces that were deleted
   * @throws {TsdbError} when log or disk fail, there are too many namespaces, or something is to be
   * parked first: goes on from there when it is called again
   */
  async take(
    placement: Placement | null,
    version: number,
    registry: NamespaceRegistry,
    ended: EndedNamespaces,
  ): Promise<TopologyChange> {
    const { instanceId, sequencer, admission, parking, parked, holdings, removal } = this.#parts;
    const { isFilled } = this.#parts;
    // What comes back must be empty before rows are taken for it, or whole.
    await this.#dropHandedOver();
    if (parking.isStuck) {
      throw new TsdbError('UNAVAILABLE', 'files of shards that were taken away are not parked yet');
    }
    await parked.removeEnded(ended);
    const isOfOthers = placement !== null && holdings.isOfOtherCount(placement.numShards);
    const adopted = isOfOthers ? null : placement;
    const adoptedVersion = isOfOthers ? 0 : version;
    const own = placement === null ? undefined : instanceById(placement, instanceId);
    const shards = adopted === null ? [] : (own?.shards ?? []).map(({ id }) => id);
    const held = [...holdings.namespaces.values()];
    const deleted = held.filter((known) => !registry.has(known.name) && hasEnded(known, ended));
    let change: TopologyChange | null = null;
    while (change === null) {
      await holdings.add(adopted?.numShards ?? 0, shards, registry, ended);
      change = await sequencer.exclusive(async () => {
        // Some were parked just now.
        if (!holdings.hasAll(shards)) return null;
        const shardChange = this.#adopt(adopted, adoptedVersion, isOfOthers, own !== undefined);
        // A start loads what the folder holds before it says what of that is gone.
        if (isFilled()) await removal.takeOutOfUse(registry, ended);
        else for (const known of deleted) holdings.removeNamespace(known);
        const addedNamespaces = removal.isDropping ? [] : this.#takeNamespaces(registry);
        admission.wake();
        return { ...shardChange, addedNamespaces };
      });
    }
    if (removal.isDropping) {
      await removal.dropDeleted();
      const addedNamespaces = await sequencer.exclusive(() => this.#takeNamespaces(registry));
      change = { ...change, addedNamespaces };
      admission.wake();
    }
    for (const known of deleted) holdings.removeNamespace(known);
    for (const { name } of isFilled() ? [] : deleted) await removal.removeUnknown(name);
    await this.#dropHandedOver();
    await holdings.save();
    if (isFilled()) this.#refuseBeforeParked(registry, isOfOthers);
    return change;
  }

  /** A step of the sequencer. */
  #adopt(
    placement: Placement | null,
    version: number,
    isOfOthers: boolean,
    isOwner: boolean,
  ): ShardChange {
    const { shards, holdings, parking, admission, isLoaded, noteFiles } = this.#parts;
    const change = shards.adopt(placement, version);
    admission.wake();
    for (const shard of change.handedOver) this.#handedOver.add(shard);
    // Without a placement nobody else has the data, so nothing is given up.
    const isTaken = (shard: number): boolean =>
      isOfOthers ||
      (placement !== null && shards.get(shard) === undefined && !this.#handedOver.has(shard));
    const reason = isOfOthers
      ? 'the placement has another number of shards'
      : `the placement ${isOwner ? 'gives these shards to others' : 'does not name this instance'}`;
    parking.leave(new Set([...holdings.shards].filter(isTaken)), reason);
    // Others have their rows, which come here later.
    if (isLoaded() && change.added.length > 0) noteFiles();
    return change;
  }

  async #dropHandedOver(): Promise<void> {
    if (this.#handedOver.size === 0) return;
    const handedOver = [...this.#handedOver];
    const { removal, holdings } = this.#parts;
    await removal.dropShards(this.#handedOver);
    holdings.removeShards(handedOver);
    await holdings.save();
  }

  /** What cannot be taken before others of its name, or number, are parked. */
  #refuseBeforeParked(registry: NamespaceRegistry, isOfOthers: boolean): void {
    const waiting = [...this.#parts.removal.lost.keys()].filter((name) => registry.has(name));
    if (!isOfOthers && waiting.length === 0) return;
    const what = isOfOthers
      ? 'a placement with another number of shards'
      : `namespaces that were made again: ${waiting.join(', ')}`;
    throw new TsdbError('UNAVAILABLE', `data are parked before this is taken: ${what}`);
  }

  /** Those of the registry, and, as long as it is here, what others of their names are. */
  #takeNamespaces(registry: NamespaceRegistry): NamespaceState[] {
    const { namespaces, holdings, removal, isFilled, addNamespace } = this.#parts;
    const added: NamespaceState[] = [];
    for (const definition of holdings.namespaces.values()) {
      const known = namespaces.get(definition.name);
      if (known !== undefined) {
        known.update(definition);
        continue;
      }
      const isLost = isFilled() && !registry.has(definition.name);
      if (isLost || removal.lost.has(definition.name)) continue;
      added.push(addNamespace(definition));
    }
    return added;
  }
}
