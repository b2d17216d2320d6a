/**
 * A simulated cluster with what is known of its rows: writes note what they send and what was
 * acknowledged, reads are held against that. Random runs and told stories are both made of it.
 */
import { ClusterAdmin } from '#cluster/admin/admin.ts';
import { plainRequest } from '#cluster/admin/placement_requests.ts';
import type { KeyValue } from '#cluster/kv/kv.ts';
import { decodeStored } from '#cluster/kv/stored_json.ts';
import { namespacesKey, placementKey, storageService } from '#cluster/kv/keys.ts';
import { registryFromJson } from '#cluster/namespaces/json.ts';
import { addNamespace } from '#cluster/namespaces/changes.ts';
import {
  emptyRegistry,
  type Namespace,
  type NamespaceRegistry,
} from '#cluster/namespaces/namespaces.ts';
import { type Placement, placementProblem } from '#cluster/placement/placement.ts';
import { placementFromStored } from '#cluster/placement/stored.ts';
import type { ReadConsistency } from '#cluster/session/consistency.ts';
import type { FetchResult } from '#cluster/session/types.ts';
import { isRetryable, writeOutcome } from '#cluster/session/outcomes/write_result.ts';
import type { UnreadKeys } from '#cluster/unread_keys.ts';
import { versionsPerMilli } from '#lib/hybrid_clock.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { typedRowsFormatLevel } from '#lib/format_level.ts';
import { namespaceOf, samplesOfBundle } from '#node/storage/database_testing.ts';
import { History, type ReadFacts, type Rows, type VersionTime } from './history.ts';
import { seriesName, SimulatedSeries, type SimulatedRow } from './series.ts';
import { clusterName, type SimulatedCoordinator, World } from './world.ts';
import { requestSignal } from './request_signal.ts';

export const namespace = 'metrics';
export const replicaFactor = 3;
export const seriesCount = 12;
export const blockMillis = 60_000;
export const bufferPastMillis = 20_000;
export const retentionMillis = 300_000;

/** Rows this near to the end of their retention may be gone. */
const retentionMarginMillis = 30_000;
/** So long may a cluster take to settle once nothing ails it any more. */
const settleMillisMax = 600_000;
/** Problems that a failure names. */
const problemsShownMax = 12;

const nanosPerMilli = 1_000_000n;

export interface ClusterShape {
  /** Nodes as 'a0', of the group 'a'. */
  readonly nodes: readonly string[];
  readonly coordinators: number;
  readonly numShards: number;
  /** `namespace` alone when not given. */
  readonly namespaces?: readonly string[];
  /** The release before made its placement, so the formats of today are not written yet. */
  readonly isOfFormerRelease?: boolean;
  /** A third of the writes has typed rows, once their formats may be written. */
  readonly writesTypedRows?: boolean;
  /** Of the namespaces, other than usual. */
  readonly options?: Partial<Namespace['options']>;
  /** Aggregated ones, and others that are no samples of writers: of the first one, which has every row from the beginning. */
  readonly beside?: readonly Namespace[];
  /** As usual when not given. */
  readonly seriesCount?: number;
  readonly bufferPastMillis?: number;
}

export interface ReadOptions {
  readonly fromMillis: number;
  readonly toMillis: number;
  /** Null for all. */
  readonly series: number | null;
  readonly consistency?: ReadConsistency;
  /** The first one when not given. */
  readonly namespace?: string;
}

export class SimulatedCluster {
  readonly world: World;
  /** By namespace; those of former times are there too. */
  readonly histories: Map<string, History> = new Map();
  #table: SimulatedSeries = new SimulatedSeries(seriesCount);
  #beside: readonly string[] = [];
  #bufferPastMillis = bufferPastMillis;
  readonly #counts = new Map<string, number>();
  #writesTypedRows = false;
  readonly #registry = new LastDecoded(registryFromJson);
  readonly #placement = new LastDecoded(placementFromStored);
  /** Unix milliseconds up to which a coordinator has given versions. */
  readonly #versionMillis = new WeakMap<SimulatedCoordinator['process'], number>();

  /** @param onTrace told of what happens, in words; null for nobody */
  constructor(seed: number, onTrace: ((line: string) => void) | null) {
    this.world = new World(seed);
    if (onTrace !== null) this.world.onTrace = onTrace;
  }

  historyOf(name: string): History {
    let history = this.histories.get(name);
    if (history === undefined) this.histories.set(name, (history = new History()));
    return history;
  }

  note(what: string, by = 1): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + by);
  }

  get counts(): ReadonlyMap<string, number> {
    return this.#counts;
  }

  /** Ends the run as failed. */
  fail(problem: string): void {
    const { world } = this;
    world.trace(`FAILED ${problem}`);
    const seconds = (world.time.nowMillis / 1000).toFixed(3);
    world.time.fail(new Error(`at ${seconds} s: ${problem}`));
  }

  /** Starts the processes, makes placement and namespace, and waits until they are in use. */
  async found(shape: ClusterShape): Promise<void> {
    this.#writesTypedRows = shape.writesTypedRows === true;
    this.#bufferPastMillis = shape.bufferPastMillis ?? bufferPastMillis;
    if (shape.seriesCount !== undefined) this.#table = new SimulatedSeries(shape.seriesCount);
    const { nodes, coordinators, numShards, namespaces = [namespace] } = shape;
    const { world } = this;
    for (const id of nodes) world.addNode(id, id[0]!);
    for (let i = 0; i < coordinators; i += 1) world.addCoordinator(`coordinator${i}`);
    this.#watchPlacements();
    // The first placement asks all of them what they read.
    const areReady = (): boolean =>
      world.nodes.values().every(({ runtime }) => runtime !== null) &&
      world.coordinators.every(({ topology }) => topology.view.isLoaded);
    while (!areReady()) await world.time.sleep(1);
    const [first] = world.coordinators;
    const { env } = first!.process;
    // One that cannot ask the nodes what they read.
    const former = new ClusterAdmin({ ...env, kv: first!.kv, cluster: clusterName });
    const admin = shape.isOfFormerRelease === true ? former : first!.admin;
    const instances = [...world.nodes.values()].map((node) => world.infoOf(node));
    const body = { numShards, replicationFactor: replicaFactor, instances };
    await admin.placementInit(body, plainRequest, requestSignal());
    for (const name of namespaces) await this.addNamespace(name, undefined, shape.options);
    await this.#addBeside(first!, shape.beside ?? []);
    await this.settle();
  }

  async #addBeside({ admin }: SimulatedCoordinator, added: readonly Namespace[]): Promise<void> {
    if (added.length === 0) return;
    this.#beside = added.map(({ name }) => name);
    for (const { name, options } of added) {
      const { retentionPeriodNanos } = options.retentionOptions;
      this.historyOf(name).retentionMillis = Number(retentionPeriodNanos / nanosPerMilli);
    }
    await admin.namespaces.update((registry) => {
      const whole = new Map(registry);
      whole.set(namespace, { ...registry.get(namespace)!, completeSinceNanos: 0n });
      return added.reduce(addNamespace, whole as NamespaceRegistry);
    }, requestSignal());
  }

  get table(): SimulatedSeries {
    return this.#table;
  }

  /** Those that rows are written to. */
  sampleNamespaces(): string[] {
    return [...this.namespaces().keys()].filter((name) => !this.#beside.includes(name));
  }

  /** Those that have what becomes of the rows of the first one. */
  get beside(): readonly string[] {
    return this.#beside;
  }

  async addNamespace(
    name: string,
    by: SimulatedCoordinator = this.world.coordinators[0]!,
    more: Partial<Namespace['options']> = {},
  ): Promise<void> {
    await by.admin.namespaces.update(
      (registry) =>
        addNamespace(registry, shortNamespace(name, more, retentionMillis, this.#bufferPastMillis)),
      requestSignal(),
    );
  }

  /** Every version of the placement that is ever stored must be a valid one. */
  #watchPlacements(): void {
    const { kvStore } = this.world;
    const key = placementKey(clusterName, storageService);
    let last = 0;
    kvStore.onChange(() => {
      const item = kvStore.get(key);
      if (item === null || item.modRevision === last) return;
      last = item.modRevision;
      this.note('versions of the placement');
      const problem = placementProblem(this.#placement.of(item)!);
      if (problem !== null) this.fail(`a stored placement is wrong: ${problem}`);
    });
  }

  /**
   * Writes rows by a coordinator at majority.
   * @param isOfAll it writes them to all namespaces of samples that it knows, of which this is one
   * @returns the outcome of each
   */
  async write(
    coordinator: SimulatedCoordinator,
    rows: readonly SimulatedRow[],
    name: string = namespace,
    isOfAll = false,
  ): Promise<readonly ('acknowledged' | 'unknown' | 'refused')[]> {
    const { time } = this.world;
    const history = this.historyOf(name);
    const writer = `${coordinator.id} boot ${coordinator.boots}`;
    const version = this.#versionOf(coordinator);
    const notes = rows.map(({ series, timeMillis, value }) => {
      const note = {
        value,
        writer,
        startedMillis: time.nowMillis,
        version,
        settledMillis: Number.POSITIVE_INFINITY,
        isAcknowledged: false,
      };
      history.begin(seriesName(series), timeMillis, note);
      return note;
    });
    this.note('writes');
    let outcomes: Uint8Array | null;
    try {
      const table = this.#table;
      const sent = this.#isTyped(rows) ? table.typedRows(rows) : table.rows(rows);
      const { namespacesRevision: revision, lineageId } = coordinator.topology.view;
      const options = isOfAll ? { registry: { revision, lineageId } } : {};
      const { session } = coordinator;
      ({ outcomes } = await session.write(name, sent, table, requestSignal(), options));
    } catch (error) {
      if (!(error instanceof TsdbError)) throw error;
      this.note(`writes failed: ${error.code}`);
      history.unknown += rows.length;
      const settled = versionAfter(coordinator, version);
      for (const note of notes) {
        note.settledMillis = time.nowMillis;
        note.version = settled;
      }
      return rows.map(() => 'unknown');
    }
    const settled = versionAfter(coordinator, version);
    return notes.map((note, i) => {
      note.settledMillis = time.nowMillis;
      note.version = settled;
      const outcome = outcomes?.[i] ?? writeOutcome.written;
      note.isAcknowledged = outcome === writeOutcome.written;
      const word = wordOf(outcome);
      history[word] += 1;
      return word;
    });
  }

  /** Whatever the series. */
  #isTyped([first]: readonly SimulatedRow[]): boolean {
    if (!this.#writesTypedRows) return false;
    const isTaken = this.world.nodes
      .values()
      .some(({ runtime }) => (runtime?.database.formats.level() ?? 0) >= typedRowsFormatLevel);
    if (!isTaken || first === undefined || first.value % 3 > 0) return false;
    this.note('writes of typed rows');
    return true;
  }

  /** The time of the version that the coordinator gives next. */
  #versionOf({ process, session }: SimulatedCoordinator): VersionTime {
    const fromMillis = process.env.clock.nowMillis();
    // After a clock was set back versions go on above the last one, and above those of others.
    const lastMillis = Math.ceil((session.lastVersion + 1) / versionsPerMilli);
    const toMillis = Math.max(fromMillis, lastMillis, this.#versionMillis.get(process) ?? 0);
    this.#versionMillis.set(process, toMillis);
    return { fromMillis, toMillis };
  }

  /**
   * A read whose answer is held against what was written; the run fails when it is wrong.
   * @returns the rows, null when the read was refused
   */
  async read(coordinator: SimulatedCoordinator, options: ReadOptions): Promise<Rows | null> {
    const { world } = this;
    const { fromMillis, toMillis, series, consistency = 'majority' } = options;
    const name = options.namespace ?? namespace;
    const startedMillis = world.time.nowMillis;
    this.note('reads');
    let result: FetchResult;
    try {
      result = await coordinator.session.fetch(
        {
          namespace: name,
          query:
            series === null ? { kind: 'all' } : { kind: 'term', field: 's', term: `${series}` },
          startNanos: BigInt(fromMillis) * nanosPerMilli,
          endNanos: BigInt(toMillis + 1) * nanosPerMilli,
          seriesLimit: 0,
          requireExhaustive: false,
          fetchData: true,
          consistency,
        },
        requestSignal(),
      );
    } catch (error) {
      if (!(error instanceof TsdbError)) throw error;
      this.note(`reads failed: ${error.code}`);
      world.trace(`${coordinator.id} read failed: ${messageOf(error)}`);
      return null;
    }
    this.note('reads answered');
    const history = this.historyOf(name);
    const facts: ReadFacts = {
      what: `${consistency} read of ${coordinator.id}${name === namespace ? '' : ` of ${name}`}`,
      startedMillis,
      fromMillis: Math.max(fromMillis, this.keptMillis(name).fromMillis),
      toMillis,
      series: series === null ? null : seriesName(series),
    };
    const rows = rowsOf(result);
    if (!result.exhaustive) return rows;
    const problems = history.problemsOf(rows, facts);
    if (problems.length > 0) {
      const shown = problems.slice(0, problemsShownMax).join('\n  ');
      this.fail(`${problems.length} rows are wrong:\n  ${shown}`);
    }
    return rows;
  }

  /** Unix milliseconds whose rows have surely not expired, and are surely taken. */
  keptMillis(name: string): { readonly fromMillis: number; readonly toMillis: number } {
    const { retentionMillis: kept = retentionMillis } = this.historyOf(name);
    const now = Math.floor(this.world.wallMillis);
    return { fromMillis: now - kept + retentionMarginMillis, toMillis: now + bufferPastMillis };
  }

  /** Waits until every shard is AVAILABLE on nodes that run and have it whole. */
  async settle(millisMax: number = settleMillisMax): Promise<void> {
    const { world } = this;
    const endMillis = world.time.nowMillis + millisMax;
    for (;;) {
      const problem = this.unsettled();
      if (problem === null) return;
      if (world.time.nowMillis > endMillis) {
        this.fail(`the cluster does not settle: ${problem}`);
        await new Promise(() => {});
      }
      await world.time.sleep(500);
    }
  }

  /** Why the cluster is not as it should be; null when it is. */
  unsettled(): string | null {
    const placement = this.placement();
    if (placement === null) return 'there is no placement';
    const namespaces = this.namespaces();
    for (const { id, shards } of placement.instances) {
      const node = this.world.nodes.get(id);
      for (const { id: shard, state } of shards) {
        if (state !== 'AVAILABLE') return `shard ${shard} of ${id} is ${state}`;
      }
      if (node === undefined || node.runtime === null) return `${id} does not run`;
      const { database } = node.runtime;
      if (!database.isBootstrapped) return `${id} is not bootstrapped`;
      if (database.shards.all().length !== shards.length) return `${id} has other shards`;
      const problem = differenceOf(namespaces, database.namespaces);
      if (problem !== null) return `${id} ${problem}`;
    }
    for (const { id, topology } of this.world.coordinators) {
      const problem = differenceOf(namespaces, topology.view.namespaces);
      if (problem !== null) return `${id} ${problem}`;
    }
    return null;
  }

  /** As they are stored. */
  namespaces(): NamespaceRegistry {
    return this.#registry.of(this.world.kvStore.get(namespacesKey(clusterName))) ?? emptyRegistry;
  }

  /** As it is stored. */
  placement(): Placement | null {
    return this.#placement.of(this.world.kvStore.get(placementKey(clusterName, storageService)));
  }

  /** Whichever group is away, everything that was acknowledged is there. */
  async checkEveryMajority(): Promise<void> {
    const { world } = this;
    const groups = new Set([...world.nodes.values()].map((node) => node.isolationGroup));
    for (const group of groups) {
      const isAway = (name: string): boolean => world.nodes.get(name)?.isolationGroup === group;
      const join = world.network.cut((from, to) => isAway(from) || isAway(to));
      world.trace(`last check without ${group}`);
      for (const name of this.sampleNamespaces()) {
        // The first one may still wait for those that are away.
        let rows: Rows | null = null;
        for (let tries = 3; tries > 0 && rows === null; tries -= 1) {
          const toMillis = Math.floor(world.wallMillis);
          const fromMillis = toMillis - retentionMillis;
          const read = { fromMillis, toMillis, series: null, namespace: name };
          rows = await this.read(world.coordinators[0]!, read);
        }
        if (rows === null) this.fail(`no majority read although only ${group} is away`);
      }
      join();
      await world.time.sleep(20_000);
    }
  }
}

/**
 * The time of the version that a write may have that was begun with another one: that of the clock when
 * nodes have refused it, or one above what they have told when another value was in its way.
 */
function versionAfter(
  { process, session }: SimulatedCoordinator,
  { fromMillis, toMillis }: VersionTime,
): VersionTime {
  return {
    fromMillis: Math.min(fromMillis, process.env.clock.nowMillis()),
    toMillis: Math.max(toMillis, Math.ceil(session.lastVersion / versionsPerMilli)),
  };
}

/** A value of the key-value store, which is asked for far more often than it changes. */
class LastDecoded<T> {
  readonly #parse: (json: unknown, unread: UnreadKeys[]) => T;
  #item: KeyValue | null = null;
  #value: T | null = null;

  constructor(parse: (json: unknown, unread: UnreadKeys[]) => T) {
    this.#parse = parse;
  }

  /** Null when it is not there. */
  of(item: KeyValue | null): T | null {
    if (item !== this.#item) {
      this.#item = item;
      this.#value = item === null ? null : decodeStored(item, this.#parse).value;
    }
    return this.#value;
  }
}

/** How the namespaces of a process differ from what is stored; null when they do not. */
function differenceOf(
  stored: NamespaceRegistry,
  known: ReadonlyMap<string, unknown>,
): string | null {
  for (const name of stored.keys()) if (!known.has(name)) return `has no namespace ${name}`;
  for (const name of known.keys()) if (!stored.has(name)) return `still has namespace ${name}`;
  return null;
}

function wordOf(outcome: number): 'acknowledged' | 'unknown' | 'refused' {
  if (outcome === writeOutcome.written) return 'acknowledged';
  return isRetryable(outcome) ? 'unknown' : 'refused';
}

/** Blocks of a minute and a retention of five when not given: a run sees flushes, merges and expiry. */
export function shortNamespace(
  name: string,
  more: Partial<Namespace['options']>,
  keptMillis: number = retentionMillis,
  pastMillis: number = bufferPastMillis,
): Namespace {
  const { options } = namespaceOf(name, more);
  return {
    name,
    options: {
      ...options,
      repairEnabled: more.repairEnabled ?? true,
      retentionOptions: {
        ...options.retentionOptions,
        retentionPeriodNanos: BigInt(keptMillis) * nanosPerMilli,
        blockSizeNanos: BigInt(blockMillis) * nanosPerMilli,
        bufferPastNanos: BigInt(pastMillis) * nanosPerMilli,
        bufferFutureNanos: BigInt(bufferPastMillis) * nanosPerMilli,
      },
      indexOptions: { enabled: true, blockSizeNanos: BigInt(blockMillis) * nanosPerMilli },
    },
  };
}

function rowsOf({ bundle }: FetchResult): Rows {
  const rows = new Map<string, [number, number][]>();
  for (const [series, samples] of samplesOfBundle(bundle)) {
    rows.set(
      series,
      samples.map(([nanos, value]) => [Number(nanos / nanosPerMilli), value]),
    );
  }
  return rows;
}
