/**
 * The placement of aggregators, as requests change it: shard sets of instances (placement/mirrored.ts). Its shards have no data,
 * so no change waits for another one, and `force` changes nothing.
 */
import { badRequest } from '#lib/errors.ts';
import { Fields } from '../fields.ts';
import {
  addMirrored,
  initMirrored,
  mirroredProblem,
  removeMirrored,
  replaceMirrored,
} from '../placement/mirrored.ts';
import { type Placement, placementFromJson, placementProblem } from '../placement/placement.ts';
import { alreadyExists, PlacementStore } from '../placement/store.ts';
import { aggregatorService, type ClusterName } from '../kv/keys.ts';
import type { Kv } from '../kv/kv.ts';
import type { Random } from '#lib/env/env.ts';
import { endpointProblem } from '../names.ts';
import {
  type AdminOptions,
  forceOf,
  instancesOf,
  placementAnswer,
  type PlacementAnswer,
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
    const leavingIds = [
      ...fields.strings('leavingInstanceIDs'),
      ...fields.strings('leavingInstanceIds'),
    ];
    const candidates = instancesOf(fields, 'candidates', this.#zone);
    forceOf(fields, options);
    fields.end();
    return this.#change(
      (placement) => replaceMirrored(placement, leavingIds, candidates),
      options,
      signal,
    );
  }

  /** `{placement, version, confirm, force}`, as of storage. */
  async set(
    body: unknown,
    options: AdminOptions,
    signal: AbortSignal,
  ): Promise<PlacementAnswer & { dryRun: boolean }> {
    const fields = Fields.of(body, '');
    const given = fields.any('placement');
    const expected = fields.uint('version', 0);
    const dryRun = !fields.boolean('confirm', false) || options.dryRun;
    forceOf(fields, options);
    fields.end();
    const placement = placementFromJson(given);
    checkPlacement(placement);
    const current = await this.#store.get(signal);
    const version = current.value === null ? 0 : current.version + 1;
    if (dryRun) return { ...placementAnswer({ placement, version }), dryRun };
    if (current.version !== expected) {
      throw badRequest(`version is not the current one, ${current.version}: ${expected}`);
    }
    const { compares, operations } = this.#store.writing(current, placement);
    const { succeeded } = await this.#store.kv.transact(compares, operations, signal);
    if (!succeeded) throw alreadyExists();
    return { ...placementAnswer({ placement, version: current.version + 1 }), dryRun };
  }

  async delete(options: AdminOptions, signal: AbortSignal): Promise<{ deleted: boolean }> {
    if (options.dryRun) await this.#store.require(signal);
    else await this.#store.delete(signal);
    return { deleted: true };
  }

  async #change(
    step: (placement: Placement) => Placement,
    options: AdminOptions,
    signal: AbortSignal,
  ): Promise<PlacementAnswer> {
    if (!options.dryRun) return placementAnswer(await this.#store.update(step, signal));
    const { value, version } = await this.#store.require(signal);
    return placementAnswer({ placement: step(value), version: version + 1 });
  }
}

/** Whoever goes by it relies on all of this, so that nobody may force it. */
function checkPlacement(placement: Placement): void {
  for (const { id, endpoint } of placement.instances) {
    const wrong = endpointProblem(`endpoint of instance ${id}`, endpoint);
    if (wrong !== null) throw badRequest(`placement: ${wrong}`);
  }
  const problem = placementProblem(placement) ?? mirroredProblem(placement);
  if (problem !== null) throw badRequest(`placement: ${problem}`);
}
