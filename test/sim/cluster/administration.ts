/**
 * What people do to a simulated cluster's namespaces and rows through its coordinators, noted in
 * what is known of the rows.
 */
import { deletionConfirmMillisMax } from '#cluster/limits.ts';
import { plainRequest } from '#cluster/admin/placement_requests.ts';
import { DeletionLog } from '#cluster/metadata/deletion_log.ts';
import { allTime } from '#cluster/metadata/deletions.ts';
import { publishDeletions, type PublishingParts } from '#cluster/metadata/publish_deletions.ts';
import { Truncations } from '#cluster/metadata/truncations.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { namespace as first, type SimulatedCluster } from './cluster.ts';
import type { Deleted } from './history.ts';
import { seriesName } from './series.ts';
import { clusterName, type SimulatedCoordinator } from './world.ts';
import { requestSignal } from './request_signal.ts';

/** Rows of a namespace; of all series, and of all time, where null is given. */
export interface DeletedRows {
  readonly namespace: string;
  readonly series: number | null;
  /** Unix milliseconds, both inclusive. */
  readonly millis: { readonly from: number; readonly to: number } | null;
}

/** So long it is waited for the nodes to have applied a deletion. */
const confirmMillisMax = 60_000;

const nanosPerMilli = 1_000_000n;

export class Administration {
  readonly #cluster: SimulatedCluster;
  /** Deletions that stand, and their place among all of them. */
  readonly #standing = new Map<Deleted, number>();
  /** Unix milliseconds up to which deletions have versions. */
  #versionMillis = 0;

  constructor(cluster: SimulatedCluster) {
    this.#cluster = cluster;
  }

  /** @returns whether it stands for sure */
  async deleteRows(by: SimulatedCoordinator, rows: DeletedRows): Promise<boolean> {
    const { namespace, series, millis } = rows;
    const query: IndexQuery =
      series === null ? { kind: 'all' } : { kind: 'term', field: 's', term: `${series}` };
    const range =
      millis === null
        ? allTime
        : {
            startNanos: BigInt(millis.from) * nanosPerMilli,
            endNanos: BigInt(millis.to + 1) * nanosPerMilli,
          };
    const request = { query, ...range, selectors: [] };
    // What is deleted goes from windows too.
    const beside = namespace === first ? this.#cluster.beside : [];
    const requests = [namespace, ...beside].map((each) => ({ ...request, namespace: each }));
    return this.#delete('delete rows', by, rows, async () => {
      const view = await by.topology.refresh(requestSignal());
      return (await publishDeletions(publishingPartsOf(by), requests, view, requestSignal()))
        .sequence;
    });
  }

  /** @returns whether it is gone for sure */
  async deleteNamespace(by: SimulatedCoordinator, name: string): Promise<boolean> {
    const log = new DeletionLog(by.kv, clusterName);
    const rows = { namespace: name, series: null, millis: null };
    return this.#delete('delete namespace', by, rows, async () => {
      await by.admin.namespaceDelete(name, plainRequest, requestSignal());
      // Others may have been appended since: who has applied them has applied this one.
      for (;;) {
        try {
          return (await log.list(requestSignal())).head.sequence;
        } catch (error) {
          if (!(error instanceof TsdbError)) throw error;
        }
      }
    });
  }

  /** @returns whether it is there for sure */
  addNamespace(by: SimulatedCoordinator, name: string): Promise<boolean> {
    return this.#tried(`add namespace ${name}`, () => this.#cluster.addNamespace(name, by));
  }

  /** @returns whether it has the new retention for sure */
  setRetention(by: SimulatedCoordinator, name: string, millis: number): Promise<boolean> {
    const history = this.#cluster.historyOf(name);
    // Where it was shorter for a moment, rows may have gone.
    history.retentionMillis = Math.min(history.retentionMillis ?? millis, millis);
    const retentionOptions = { retentionPeriodDuration: `${millis}ms` };
    const body = { name, options: { retentionOptions } };
    return this.#tried(`set retention of ${name} to ${millis}`, () =>
      by.admin.namespaceUpdate(body, plainRequest, requestSignal()),
    );
  }

  /** All nodes are asked to rewrite what has deleted rows. @returns whether that is done */
  clean(by: SimulatedCoordinator): Promise<boolean> {
    return this.#tried('clean', () => new DeletionLog(by.kv, clusterName).clean(requestSignal()));
  }

  /** @returns whether it stands for sure */
  async truncate(by: SimulatedCoordinator, name: string): Promise<boolean> {
    const truncations = new Truncations({
      ...publishingPartsOf(by),
      topology: by.topology,
      checkClock: () => {},
      nodeOf: () => ({}),
    });
    const rows = { namespace: name, series: null, millis: null };
    return this.#delete('truncate', by, rows, async () => {
      return (await truncations.publish(name, requestSignal())).sequence;
    });
  }

  /** When nothing ails the cluster, every node applies every deletion. */
  async settle(): Promise<void> {
    const { world } = this.#cluster;
    const [by] = world.coordinators;
    const all = [...this.#standing].filter(([{ confirmedMillis }]) => !isFinite(confirmedMillis));
    for (const [deleted, sequence] of all) {
      if (await this.#confirm(by!, deleted, sequence)) continue;
      this.#cluster.fail(`${deleted.what} is not applied by all nodes`);
    }
  }

  async #delete(
    what: string,
    by: SimulatedCoordinator,
    rows: DeletedRows,
    call: () => Promise<number>,
  ): Promise<boolean> {
    const { time } = this.#cluster.world;
    const { clock } = by.process.env;
    const startedMillis = clock.nowMillis();
    const whole = `${what} of ${rows.namespace} by ${by.id}`;
    const deleted = this.#begin(whole, rows, startedMillis);
    const settle = (): void => {
      deleted.settledMillis = time.nowMillis;
      // The clock may have been set meanwhile; no version is below the one before.
      const now = clock.nowMillis();
      this.#versionMillis = Math.max(this.#versionMillis, startedMillis, now);
      const fromMillis = Math.min(startedMillis, now);
      deleted.version = { fromMillis, toMillis: this.#versionMillis };
    };
    // What a process asked for that has ended may stand.
    by.process.onEnd.add(settle);
    let sequence = 0;
    const isDone = await this.#tried(whole, async () => {
      sequence = await call();
    });
    // Who asked is answered when all have applied it, or after a while.
    const answer = isDone
      ? Promise.race([
          this.#confirm(by, deleted, sequence),
          by.process.env.clock.sleep(deletionConfirmMillisMax, requestSignal()),
        ])
      : Promise.resolve();
    await answer;
    by.process.onEnd.delete(settle);
    settle();
    if (isDone) this.#standing.set(deleted, sequence);
    return isDone;
  }

  #begin(what: string, rows: DeletedRows, versionMillis: number): Deleted {
    const { namespace, series, millis } = rows;
    const toMillis = Number.POSITIVE_INFINITY;
    const deleted: Deleted = {
      what,
      series: series === null ? null : seriesName(series),
      fromMillis: millis?.from ?? Number.NEGATIVE_INFINITY,
      toMillis: millis?.to ?? toMillis,
      version: { fromMillis: versionMillis, toMillis },
      settledMillis: Number.POSITIVE_INFINITY,
      confirmedMillis: Number.POSITIVE_INFINITY,
    };
    const beside = namespace === first ? this.#cluster.beside : [];
    for (const each of [namespace, ...beside]) this.#cluster.historyOf(each).beginDeletion(deleted);
    return deleted;
  }

  /** Waits until all nodes have applied it, for a while. */
  async #confirm(by: SimulatedCoordinator, deleted: Deleted, sequence: number): Promise<boolean> {
    const { world } = this.#cluster;
    const log = new DeletionLog(by.kv, clusterName);
    const instances = this.#cluster.placement()?.instances.map(({ id }) => id) ?? [];
    const deadline = by.process.env.clock.deadline(confirmMillisMax, requestSignal());
    const hasApplied = ({ applied }: { applied: number }): boolean => applied >= sequence;
    try {
      if ((await log.whenAll(instances, hasApplied, deadline)).length > 0) return false;
    } catch (error) {
      if (!(error instanceof TsdbError)) throw error;
      return false;
    }
    deleted.confirmedMillis = world.time.nowMillis;
    return true;
  }

  async #tried(what: string, call: () => Promise<unknown>): Promise<boolean> {
    const { world } = this.#cluster;
    world.trace(what);
    const kind = what.split(' ')[0]!;
    try {
      await call();
    } catch (error) {
      if (!(error instanceof TsdbError)) throw error;
      this.#cluster.note(`refused: ${kind}`);
      world.trace(`${what}: ${messageOf(error)}`);
      return false;
    }
    this.#cluster.note(`done: ${kind}`);
    world.trace(`${what}: done`);
    return true;
  }
}

function publishingPartsOf({ kv, process, session }: SimulatedCoordinator): PublishingParts {
  return {
    log: new DeletionLog(kv, clusterName),
    clock: process.env.clock,
    noteDeletion: (version) => session.noteDeletion(version),
  };
}
