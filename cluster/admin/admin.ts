/**
 * The admin API as functions: the parsed JSON body of a request in, the exact body of the answer
 * out, everything in between by compare-and-set in the key-value store. HTTP handlers only route to
 * these and print what they return; errors are `TsdbError`.
 */
import type { Clock, Random } from '#lib/env/env.ts';
import { badRequest, TsdbError, shownText } from '#lib/errors.ts';
import { RuleSetStore } from '../aggregation_rules/sets/store.ts';
import { approvePlacement } from './approve.ts';
import { checkNoRulesDetached } from './detached_rules.ts';
import { databaseCreate } from './database_create.ts';
import { DeletionLog } from '../metadata/deletion_log.ts';
import { allTime } from '../metadata/deletions.ts';
import { Fields } from '../fields.ts';
import { type ClusterName, storageService } from '../kv/keys.ts';
import type { Kv } from '../kv/kv.ts';
import { deletionsMax, namespacesMax } from '../limits.ts';
import { namespaceOfAddRequest, updateOfRequest } from '../namespaces/request.ts';
import { NamespaceStore } from '../namespaces/store.ts';
import {
  addNamespace,
  advanceStaging,
  checkReadyable,
  deleteNamespace,
  updateNamespace,
} from '../namespaces/changes.ts';
import {
  aggregationOf,
  isReady,
  type Namespace,
  namespaceOf,
  type NamespaceRegistry,
} from '../namespaces/namespaces.ts';
import { type RegistryJson, registryToJson, withDurations } from '../namespaces/json.ts';
import { namespaceNumber } from '../namespaces/numbers.ts';
import {
  type Instance,
  type InstanceInfo,
  type Placement,
  placementProblem,
  type VersionedPlacement,
} from '../placement/placement.ts';
import {
  addInstances,
  initPlacement,
  type IsBootstrapped,
  markShardsAvailable,
  removeInstances,
  replaceInstances,
  resetInstance,
  resetInstances,
} from '../placement/algorithm.ts';
import { finishHandovers } from '../placement/handover.ts';
import { resolutionsFormatLevel } from '#lib/format_level.ts';
import { alreadyExists, PlacementStore } from '../placement/store.ts';
import { compareAndSet } from '../kv/stored_json.ts';
import type { NodeService } from '../node/service.ts';
import { healthReport, type HealthReport } from './instance_health.ts';
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
import {
  deploymentOf,
  deploySchema,
  resetSchema,
  schemaHistory,
  type SchemaTarget,
} from './schemas.ts';
import {
  finishedOf,
  finishingFirst,
  refuseFormerReleases,
  upgradeFinish,
  type UpgradeStatus,
  upgradeStatus,
  type UpgradeTarget,
} from './upgrade.ts';

export interface RegistryAnswer {
  readonly registry: RegistryJson;
  /** By name: of no other namespace, also of none of the same name; of GET, for who asks. */
  readonly numbers?: Readonly<Record<string, number>>;
  /** As of `PlacementAnswer`; of GET alone. */
  readonly awaitsApproval?: true;
}

export interface DatabaseAnswer {
  readonly namespace: RegistryAnswer;
  readonly placement: PlacementAnswer;
}

export interface AdminSetup {
  readonly kv: Kv;
  readonly cluster: ClusterName;
  /** Gives deletions their versions. */
  readonly clock: Clock;
  /** As of `DeletionLog`. */
  readonly writtenVersion?: () => number;
  /** Gives assignments their IDs. */
  readonly random: Random;
  /** Default 'tsdb'. */
  readonly service?: string;
  /** The one instance of database/create with type local. */
  readonly localInstance?: InstanceInfo;
  /** The service of an instance, which says what formats it reads; nobody is asked without it. */
  readonly nodeOf?: (instance: Instance) => Pick<NodeService, 'health'>;
}

/** Instance that database/create makes for type local. */
export const localInstanceDefault: InstanceInfo = {
  id: 'tsdb_local',
  isolationGroup: 'local',
  zone: 'embedded',
  weight: 1,
  endpoint: '127.0.0.1:9000',
  hostname: 'localhost',
  port: 9000,
  shardSetId: 0,
  debugPort: 0,
};

export class ClusterAdmin {
  readonly cluster: ClusterName;
  readonly placements: PlacementStore;
  readonly namespaces: NamespaceStore;
  readonly #kv: Kv;
  readonly #localInstance: InstanceInfo;
  readonly #deletions: DeletionLog;
  readonly #clock: Clock;
  readonly #upgrade: UpgradeTarget;
  readonly #schemas: SchemaTarget;

  constructor(setup: AdminSetup) {
    this.#kv = setup.kv;
    this.cluster = setup.cluster;
    const { kv, cluster, clock, random, service } = setup;
    this.placements = new PlacementStore(kv, cluster, random, service ?? storageService);
    this.namespaces = new NamespaceStore(kv, cluster, setup.clock);
    this.#schemas = { namespaces: this.namespaces, clock, random };
    this.#deletions = new DeletionLog(setup.kv, setup.cluster, setup.writtenVersion);
    this.#clock = setup.clock;
    this.#localInstance = setup.localInstance ?? localInstanceDefault;
    const { placements } = this;
    const nodeOf = setup.nodeOf ?? null;
    this.#upgrade = { kv, cluster, clock: setup.clock, placements, nodeOf };
  }

  /**
   * POST database/create. Namespaces and, when there is none, the placement are written in one
   * transaction.
   * @throws {TsdbError} BAD_REQUEST, also when the namespace exists
   */
  async databaseCreate(
    body: unknown,
    options: AdminOptions,
    signal: AbortSignal,
  ): Promise<DatabaseAnswer> {
    const { placements, namespaces, cluster } = this;
    const kv = this.#kv;
    const localInstance = this.#localInstance;
    const withFirst = (placement: Placement) => finishingFirst(this.#upgrade, placement, signal);
    const target = { kv, placements, namespaces, localInstance, zone: cluster.zone, withFirst };
    return databaseCreate(target, body, options, signal);
  }

  /**
   * GET placement.
   * @param version a past one; null for the current one
   * @throws {TsdbError} NOT_FOUND
   */
  async placementGet(version: number | null, signal: AbortSignal): Promise<PlacementAnswer> {
    if (version !== null) return placementAnswer(await this.placements.getVersion(version, signal));
    const { value, version: newest, lineage } = await this.placements.require(signal);
    const current = placementAnswer({ placement: value, version: newest });
    return lineage.awaitsApproval ? { ...current, awaitsApproval: true } : current;
  }

  /**
   * POST placement/init: `{num_shards, replication_factor, instances}`. The answer's version is 0.
   * @throws {TsdbError} CONFLICT when there is a placement, BAD_REQUEST
   */
  async placementInit(
    body: unknown,
    options: AdminOptions,
    signal: AbortSignal,
  ): Promise<PlacementAnswer> {
    const fields = Fields.of(body, '');
    const instances = instancesOf(fields, 'instances', this.cluster.zone);
    const shape = {
      numShards: fields.uint('numShards', 0),
      replicaFactor: fields.uint('replicationFactor', 0),
    };
    fields.ignore('optionOverride');
    fields.end();
    const current = await this.placements.get(signal);
    if (current.value !== null) throw alreadyExists();
    const placement = initPlacement(instances, shape);
    if (!options.dryRun) {
      const finished = await finishingFirst(this.#upgrade, placement, signal);
      const writes = this.placements.writing(current, placement);
      const { succeeded } = await this.#kv.transact(
        [...writes.compares, ...finished.compares],
        [...writes.operations, ...finished.operations],
        signal,
      );
      if (!succeeded) throw alreadyExists();
    }
    return placementAnswer({ placement, version: 0 });
  }

  /** POST placement: `{instances, force?}`. Adds all of them. */
  async placementAdd(
    body: unknown,
    options: AdminOptions,
    signal: AbortSignal,
  ): Promise<PlacementAnswer> {
    const fields = Fields.of(body, '');
    const instances = instancesOf(fields, 'instances', this.cluster.zone);
    const force = forceOf(fields, options);
    fields.end();
    await this.#refuseFormerReleases(instances, signal);
    return this.#change(
      (placement) => addInstances(placement, instances, { force }),
      options,
      signal,
    );
  }

  /** POST placement/remove: `{instance_ids, force?}`. */
  async placementRemove(
    body: unknown,
    options: AdminOptions,
    signal: AbortSignal,
  ): Promise<PlacementAnswer> {
    const fields = Fields.of(body, '');
    const ids = fields.strings('instanceIds');
    const force = forceOf(fields, options);
    fields.end();
    return this.#change((placement) => removeInstances(placement, ids, { force }), options, signal);
  }

  /** DELETE placement/{id}. */
  async placementRemoveInstance(
    id: string,
    options: AdminOptions,
    signal: AbortSignal,
  ): Promise<PlacementAnswer> {
    return this.#change((placement) => removeInstances(placement, [id], options), options, signal);
  }

  /** POST placement/replace: `{leavingInstanceIDs, candidates, force?}`. */
  async placementReplace(
    body: unknown,
    options: AdminOptions,
    signal: AbortSignal,
  ): Promise<PlacementAnswer> {
    const fields = Fields.of(body, '');
    const leavingIds = leavingIdsOf(fields);
    const candidates = instancesOf(fields, 'candidates', this.cluster.zone);
    const force = forceOf(fields, options);
    fields.end();
    await this.#refuseFormerReleases(candidates, signal);
    return this.#change(
      (placement) => replaceInstances(placement, leavingIds, candidates, { force }),
      options,
      signal,
    );
  }

  /**
   * POST placement/reset: `{instance_ids, force?}`. The instances count for nothing any more until
   * they have taken their shards from others, and nobody waits for what they have: they are gone
   * for good, or their data are not trusted.
   * @param isAnswering whether the process of an instance runs: not asked with `force`
   * @throws {TsdbError} NOT_FOUND, CONFLICT when an instance runs, BAD_REQUEST
   */
  async placementReset(
    body: unknown,
    options: AdminOptions,
    isAnswering: (instance: Instance, signal: AbortSignal) => Promise<boolean>,
    signal: AbortSignal,
  ): Promise<PlacementAnswer> {
    const fields = Fields.of(body, '');
    const ids = fields.strings('instanceIds');
    const force = forceOf(fields, options);
    fields.end();
    if (ids.length === 0) throw badRequest('missing required field: instance_ids');
    if (!force) {
      const { value } = await this.placements.require(signal);
      for (const id of ids) {
        const instance = value.instances.find((each) => each.id === id);
        if (instance === undefined || !(await isAnswering(instance, signal))) continue;
        throw new TsdbError(
          'CONFLICT',
          `instance runs: stop it first, or reset it by force when its data are not to be trusted: ${id}`,
        );
      }
    }
    return this.#change((placement) => resetInstances(placement, ids, { force }), options, signal);
  }

  /**
   * POST placement/approve: `{force?}`. The key-value store was restored or made anew: what the
   * instances knew last stands again.
   * @throws {TsdbError} CONFLICT that says who has not said what it knew, NOT_FOUND when nobody knew a
   *   placement
   */
  async placementApprove(
    body: unknown,
    options: AdminOptions,
    signal: AbortSignal,
  ): Promise<PlacementAnswer> {
    const fields = Fields.of(body, '');
    const force = forceOf(fields, options);
    fields.end();
    const { cluster, placements, namespaces } = this;
    const target = { kv: this.#kv, cluster, placements, namespaces };
    const approved = await approvePlacement(target, { dryRun: options.dryRun, force }, signal);
    if (approved === null) throw new TsdbError('NOT_FOUND', 'placement does not exist');
    return placementAnswer(approved);
  }

  #refuseFormerReleases(joining: readonly InstanceInfo[], signal: AbortSignal): Promise<void> {
    const instances = joining.map((info) => ({ ...info, shards: [] }));
    return refuseFormerReleases(this.#upgrade, instances, signal);
  }

  /**
   * GET health: what every instance of the placement says of itself.
   * @throws {TsdbError} NOT_FOUND without a placement
   */
  async healths(signal: AbortSignal): Promise<HealthReport> {
    const { value: placement } = await this.placements.require(signal);
    return healthReport(this.#upgrade, placement.instances, signal);
  }

  /** GET upgrade. @throws {TsdbError} NOT_FOUND without a placement */
  upgradeStatus(signal: AbortSignal): Promise<UpgradeStatus> {
    return upgradeStatus(this.#upgrade, signal);
  }

  /** POST upgrade/finish. @throws {TsdbError} NOT_FOUND, CONFLICT that names who is in the way */
  upgradeFinish(options: AdminOptions, signal: AbortSignal): Promise<UpgradeStatus> {
    return upgradeFinish(this.#upgrade, options, signal);
  }

  /** DELETE placement. */
  placementDelete(options: AdminOptions, signal: AbortSignal): Promise<{ deleted: boolean }> {
    return deletePlacement(this.placements, options, signal);
  }

  /**
   * POST placement/set: `{placement, version, confirm, force}`. Without `confirm` nothing is
   * written. The version must be the one that stands; `force` passes over the rules of placements.
   */
  placementSet(
    body: unknown,
    options: AdminOptions,
    signal: AbortSignal,
  ): Promise<PlacementAnswer & { dryRun: boolean }> {
    const problemOf = (placement: Placement, force: boolean): string | null =>
      force ? null : placementProblem(placement);
    return setPlacement(this.placements, body, problemOf, options, signal);
  }

  /**
   * What nodes do: marks shards that an instance has bootstrapped AVAILABLE. All owners are taken to
   * know, so that givers leave at once.
   * @throws {TsdbError} NOT_FOUND when the instance or the placement is not there
   */
  markAvailable(
    instanceId: string,
    isBootstrapped: IsBootstrapped,
    signal: AbortSignal,
  ): Promise<VersionedPlacement> {
    return this.placements.update((placement) => {
      const marked = markShardsAvailable(placement, instanceId, isBootstrapped);
      return finishHandovers(marked, new Map(marked.instances.map(({ id }) => [id, true])));
    }, signal);
  }

  /** What nodes do that find their data folder new or rolled back. */
  resetInstance(instanceId: string, signal: AbortSignal): Promise<VersionedPlacement> {
    return this.placements.update((placement) => resetInstance(placement, instanceId), signal);
  }

  /** GET namespace. With `debug`, durations as text under `…Duration` keys. */
  async namespaceGet(
    debug: boolean,
    signal: AbortSignal,
    withNumbers: boolean = false,
  ): Promise<RegistryAnswer> {
    const { value, lineage } = await this.namespaces.get(signal);
    return {
      ...registryAnswer(value, debug),
      ...(withNumbers ? { numbers: numbersOf(value) } : {}),
      ...(lineage.awaitsApproval ? { awaitsApproval: true } : {}),
    };
  }

  /** POST namespace: `{name, options}`. Answers with all namespaces. */
  async namespaceAdd(
    body: unknown,
    options: AdminOptions,
    signal: AbortSignal,
  ): Promise<RegistryAnswer> {
    const namespace = namespaceOfAddRequest(body);
    return this.#changeRegistry((registry) => addNamespace(registry, namespace), options, signal);
  }

  /**
   * PUT namespace: `{name, options}` with mutable options. Answers with all namespaces.
   * @throws {TsdbError} BAD_REQUEST, also for a retention by which rules of aggregation name it, but by force
   */
  async namespaceUpdate(
    body: unknown,
    options: AdminOptions,
    signal: AbortSignal,
  ): Promise<RegistryAnswer> {
    const { name, update } = updateOfRequest(body);
    const { namespaces, cluster } = this;
    const kv = this.#kv;
    const rules = new RuleSetStore(kv, cluster);
    const updated = await compareAndSet(
      kv,
      async () => {
        const current = await namespaces.get(signal);
        const next = updateNamespace(current.value, name, update, this.#clock.nowNanos());
        const [before, after] = [current.value, next].map((one) => namespaceOf(one, name));
        const sameRules = options.force
          ? []
          : await checkNoRulesDetached(rules, before!, after!, signal);
        if (options.dryRun) return { compares: [], operations: [], result: next };
        const { compares, operations } = namespaces.writing(current, next);
        return { compares: [...compares, ...sameRules], operations, result: next };
      },
      signal,
    );
    return registryAnswer(updated, false);
  }

  /**
   * DELETE namespace/{id}. A deletion of everything in it stands with it, for nodes that are away,
   * or see it made again before they see it gone.
   */
  async namespaceDelete(
    name: string,
    options: AdminOptions,
    signal: AbortSignal,
  ): Promise<{ deleted: boolean }> {
    const { namespaces } = this;
    const kv = this.#kv;
    const deletions = this.#deletions;
    const clock = this.#clock;
    const everything = {
      namespace: name,
      query: { kind: 'all' },
      ...allTime,
      selectors: [],
    } as const;
    await compareAndSet(
      kv,
      async () => {
        const current = await namespaces.get(signal);
        const next = deleteNamespace(current.value, name, clock.nowNanos());
        if (options.dryRun) return { compares: [], operations: [], result: next };
        const registry = namespaces.writing(current, next);
        // Those who want to delete namespaces are not kept from it by those who delete series.
        const max = deletionsMax + namespacesMax;
        const deleted = await deletions.writing([everything], current.value, clock, signal, max);
        return {
          compares: [...registry.compares, ...deleted.compares],
          operations: [...registry.operations, ...deleted.operations],
          result: next,
        };
      },
      signal,
    );
    return { deleted: true };
  }

  /**
   * POST namespace/ready: `{name, force?}`.
   * @param prove reads the namespace at a quorum of nodes; its rejection refuses the request. Not
   *   called with `force` or when the namespace is ready already.
   * @throws {TsdbError} BAD_REQUEST for an unknown namespace, and for an aggregated one
   */
  async namespaceReady(
    body: unknown,
    options: AdminOptions,
    prove: (namespace: string, signal: AbortSignal) => Promise<void>,
    signal: AbortSignal,
  ): Promise<{ ready: boolean }> {
    const fields = Fields.of(body, '');
    const name = fields.string('name', '');
    const force = forceOf(fields, options);
    fields.end();
    if (name === '') throw badRequest('missing required field: name');
    const { value } = await this.namespaces.get(signal);
    const namespace = value.get(name);
    if (namespace === undefined)
      throw badRequest(`namespace is not found: ${JSON.stringify(shownText(name))}`);
    checkReadyable(value, namespace);
    if (isReady(namespace)) return { ready: true };
    if (!force) await prove(name, signal);
    if (!options.dryRun) await this.#finishWithFirst(value, signal);
    const { level } = await finishedOf(this.#upgrade, signal);
    await this.#changeRegistry(
      (registry) => {
        checkAggregated(registry.get(name), level);
        return advanceStaging(registry, name, 'READY', this.#clock.nowNanos());
      },
      options,
      signal,
    );
    return { ready: true };
  }

  /**
   * There are no data before the first namespace is ready: nodes that could not say yet what they
   * read when the placement was made may say it now.
   */
  async #finishWithFirst(registry: NamespaceRegistry, signal: AbortSignal): Promise<void> {
    if (registry.values().some(isReady)) return;
    const { value: placement } = await this.placements.get(signal);
    if (placement === null) return;
    const { compares, operations } = await finishingFirst(this.#upgrade, placement, signal);
    // Where somebody else has done it meanwhile, it is done.
    if (operations.length > 0) await this.#kv.transact(compares, operations, signal);
  }

  /** POST schema: as `deploySchema`. */
  async schemaDeploy(
    body: unknown,
    options: AdminOptions,
    signal: AbortSignal,
  ): Promise<{ readonly deployID: string }> {
    const { name, text } = deploymentOf(body);
    return deploySchema(this.#schemas, name, text, options, signal);
  }

  /** DELETE schema: as `resetSchema`. */
  async schemaReset(body: unknown, options: AdminOptions, signal: AbortSignal): Promise<object> {
    return resetSchema(this.#schemas, body, options, signal);
  }

  /** GET schema: as `schemaHistory`. */
  async schemaGet(name: string, signal: AbortSignal): Promise<object> {
    return schemaHistory(this.#schemas, name, signal);
  }

  /** What nodes do once they have begun to bootstrap a namespace. */
  async namespaceInitializing(name: string, signal: AbortSignal): Promise<void> {
    await this.namespaces.update(
      (registry) => advanceStaging(registry, name, 'INITIALIZING', this.#clock.nowNanos()),
      signal,
    );
  }

  #change(
    step: (placement: Placement) => Placement,
    options: AdminOptions,
    signal: AbortSignal,
  ): Promise<PlacementAnswer> {
    return changePlacement(this.placements, step, options, signal);
  }

  async #changeRegistry(
    step: (registry: NamespaceRegistry) => NamespaceRegistry,
    options: AdminOptions,
    signal: AbortSignal,
  ): Promise<RegistryAnswer> {
    if (!options.dryRun) return registryAnswer(await this.namespaces.update(step, signal), false);
    return registryAnswer(step((await this.namespaces.get(signal)).value), false);
  }
}

const numbersOf = (registry: NamespaceRegistry): Record<string, number> =>
  Object.fromEntries(
    [...registry.values()].map((namespace) => [namespace.name, namespaceNumber(namespace)]),
  );

function registryAnswer(registry: NamespaceRegistry, debug: boolean): RegistryAnswer {
  const json = registryToJson(registry);
  return { registry: debug ? (withDurations(json) as RegistryJson) : json };
}

/** Who makes windows is every node. @throws {TsdbError} CONFLICT */
function checkAggregated(namespace: Namespace | undefined, level: number): void {
  if (namespace === undefined || aggregationOf(namespace) === null) return;
  if (level >= resolutionsFormatLevel) return;
  throw new TsdbError(
    'CONFLICT',
    `cannot make namespace ${namespace.name} ready: it is aggregated, and nodes of the release before make no windows: tsdbctl upgrade finish`,
  );
}
