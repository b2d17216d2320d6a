/**
 * The placement of aggregators, as requests change it: shard sets of instances (placement/mirrored.ts). Its shards have no data,
 * so no change waits for another one, and `force` changes nothing.
 */
import { Fields } from '../fields.ts';
import {
  addMirrored,
  initMirrored,
  mirroredProblem,
  removeMirrored,
  replaceMirrored,
} from '../placement/mirrored.ts';
import { type Placement, placementProblem } from '../placement/placement.ts';
import { alreadyExists, PlacementStore } from '../placement/store.ts';
import { aggregatorService, type ClusterName } from '../kv/keys.ts';
import type { Kv } from '../kv/kv.ts';
import type { Random } from '#lib/env/env.ts';
import {
  type AdminOptions,
  changePlacement,
  deletePlacement,
  forceOf,
  instancesOf,
  leavingIdsOf,
  placementAnswer,
  type PlacementAnswer,
  setPlacement,
} from './placement_requests.ts';

export class AggregatorPlacement {
  readonly #store: PlacementStore;
  readonly #zone: string;

  constructor(kv: Kv, cluster: ClusterName, random: Random) {
    this.#store = new PlacementStore(kv, cluster, random, aggregatorService);
    this.#zone = cluster.zone;
  }

  /**
   * @param version a past one; null for the current one
   * @throws {TsdbError} NOT_FOUND
   */
  async get(version: number | null, signal: AbortSignal): Promise<PlacementAnswer> {
    if (version !== null) return placementAnswer(await this.#store.getVersion(version, signal));
    const { value, version: newest } = await this.#store.require(signal);
    return placementAnswer({ placement: value, version: newest });
  }

  /**
   * `{num_shards, replication_factor, instances}`. The answer's version is 0.
   * @throws {TsdbError} CONFLICT when there is a placement, BAD_REQUEST
   */
  async init(body: unknown, options: AdminOptions, signal: AbortSignal): Promise<PlacementAnswer> {
    const fields = Fields.of(body, '');
    const instances = instancesOf(fields, 'instances', this.#zone);
    const shape = {
      numShards: fields.uint('numShards', 0),
      replicaFactor: fields.uint('replicationFactor', 0),
    };
    fields.ignore('optionOverride');
    fields.end();
    const placement = initMirrored(instances, shape);
    if (!options.dryRun) await this.#store.create(placement, signal);
    else if ((await this.#store.get(signal)).value !== null) throw alreadyExists();
    return placementAnswer({ placement, version: 0 });
  }

  /** `{instances, force?}`. Adds all of them. */
  add(body: unknown, options: AdminOptions, signal: AbortSignal): Promise<PlacementAnswer> {
    const fields = Fields.of(body, '');
    const instances = instancesOf(fields, 'instances', this.#zone);
    forceOf(fields, options);
    fields.end();
    return this.#change((placement) => addMirrored(placement, instances), options, signal);
  }

  /** `{instance_ids, force?}`: all of one or more shard sets. */
  remove(body: unknown, options: AdminOptions, signal: AbortSignal): Promise<PlacementAnswer> {
    const fields = Fields.of(body, '');
    const ids = fields.strings('instanceIds');
    forceOf(fields, options);
    fields.end();
    return this.#change((placement) => removeMirrored(placement, ids), options, signal);
  }

  removeInstance(id: string, options: AdminOptions, signal: AbortSignal): Promise<PlacementAnswer> {
    return this.#change((placement) => removeMirrored(placement, [id]), options, signal);
  }

  /** `{leavingInstanceIDs, candidates, force?}`. */
  replace(body: unknown, options: AdminOptions, signal: AbortSignal): Promise<PlacementAnswer> {
    const fields = Fields.of(body, '');
    const leavingIds = leavingIdsOf(fields);
    const candidates = instancesOf(fields, 'candidates', this.#zone);
    forceOf(fields, options);
    fields.end();
    return this.#change(
      (placement) => replaceMirrored(placement, leavingIds, candidates),
      options,
      signal,
    );
  }

  /** `{placement, version, confirm, force}`, as of storage; but whoever goes by it relies on all rules, so nobody may force it. */
  set(
    body: unknown,
    options: AdminOptions,
    signal: AbortSignal,
  ): Promise<PlacementAnswer & { dryRun: boolean }> {
    const problemOf = (placement: Placement): string | null =>
      placementProblem(placement) ?? mirroredProblem(placement);
    return setPlacement(this.#store, body, problemOf, options, signal);
  }

  delete(options: AdminOptions, signal: AbortSignal): Promise<{ deleted: boolean }> {
    return deletePlacement(this.#store, options, signal);
  }

  #change(
    step: (placement: Placement) => Placement,
    options: AdminOptions,
    signal: AbortSignal,
  ): Promise<PlacementAnswer> {
    return changePlacement(this.#store, step, options, signal);
  }
}
