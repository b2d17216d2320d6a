/** What a coordinator does about rules and resolutions, of the parts that `startCoordinator` makes it of. */
import { RulesFollower } from '#cluster/aggregation_rules/sets/follower.ts';
import { droppedNamespace } from '#cluster/namespaces/companions.ts';
import { droppedRetentionNanos } from '#cluster/namespaces/dropped.ts';
import {
  aggregationOf,
  isReady,
  type Namespace,
  rowsSinceOf,
} from '#cluster/namespaces/namespaces.ts';
import { isOfWindows, readySamples } from '#cluster/namespaces/samples.ts';
import { rollupMetrics } from '#cluster/rollups/metrics.ts';
import { Rollups } from '#cluster/rollups/rollups.ts';
import { shareOfCoordinators } from '#cluster/rollups/share.ts';
import { DroppedRows } from '#coordinator/ingest/writing/dropped_rows.ts';
import { PromqlEngine } from '#coordinator/promql/engine.ts';
import {
  Fanout,
  type ReadableNamespace,
  type WindowsNamespace,
} from '#coordinator/select/fanout.ts';
import { selectMetrics } from '#coordinator/select/metrics.ts';
import { onTheLoop } from '#engine/aside/aside.ts';
import type { Clock } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';
import { Metrics } from '#lib/metrics.ts';
import { Turns } from '#lib/turns/turns.ts';
import type { SimulatedRow, SimulatedSeries } from '../cluster/series.ts';
import type { WindowsShape } from '../cluster/windows/shape.ts';
import { clusterName, type SimulatedCoordinator } from '../cluster/world.ts';
import { policyOf } from './shape.ts';

export interface DividedBatch {
  readonly kept: readonly SimulatedRow[];
  readonly aside: readonly SimulatedRow[];
  readonly nowhere: readonly SimulatedRow[];
}

export class ResolutionsCoordinator {
  readonly #topology: SimulatedCoordinator['topology'];
  readonly #clock: Clock;
  readonly rules: RulesFollower;
  readonly storage: Fanout;
  readonly engine: PromqlEngine;
  readonly #dropped: DroppedRows;

  constructor({ process, kv, topology, session }: SimulatedCoordinator, log: Log) {
    const { env } = process;
    const cluster = clusterName;
    this.#topology = topology;
    this.#clock = env.clock;
    this.rules = new RulesFollower({ kv, cluster, env, log }).start();
    const namespaces = (): readonly Namespace[] => [...topology.view.namespaces.values()];
    this.#dropped = new DroppedRows(
      () => this.rules.known.sets,
      () => namespaces().flatMap(windowsOf),
      env.clock,
    );
    this.storage = new Fanout(
      session,
      {
        samples: () => readySamples(topology.view.namespaces).map(readable),
        windows: () => namespaces().flatMap(windowsOf),
        dropped: () => {
          const dropped = topology.view.namespaces.get(droppedNamespace);
          return dropped === undefined || !isReady(dropped) ? null : readable(dropped);
        },
        madeAfterNanos: () => droppedRetentionNanos(topology.view.namespaces),
      },
      selectMetrics(new Metrics()),
      (signal) => ({ work: Turns.of(env.clock).begin(signal), aside: onTheLoop }),
      env.clock,
      () => this.rules.known.sets,
    );
    this.engine = new PromqlEngine(this.storage, { clock: env.clock });
    const share = shareOfCoordinators(cluster, { placement: null, modRevision: 0 });
    void new Rollups({
      ...{ kv, cluster, env, log, topology, session },
      time: { earliestNanos: () => env.clock.nowNanos() },
      rules: this.rules,
      idScheme: 'quoted',
      metrics: rollupMetrics(new Metrics()),
      share: () => share,
      shareCount: () => 1,
    }).start();
  }

  /** Of windows of one namespace, as a request chooses them by its headers. */
  engineOf(shape: WindowsShape): PromqlEngine {
    const storage = this.storage.chosen({ kind: 'windows', policies: [policyOf(shape)] });
    return new PromqlEngine(storage, { clock: this.#clock });
  }

  /** Where it puts rows, by the rules that it knows. */
  divided(rows: readonly SimulatedRow[], table: SimulatedSeries): DividedBatch {
    const hasAside = (): boolean => this.#topology.view.namespaces.has(droppedNamespace);
    const none = { histograms: null, firstNameless: null, exemplars: null, metadata: null };
    const timeUnitNanos = 1_000_000 as const;
    const body = { ...table.rows(rows), timeUnitNanos, startNanos: null, ...none };
    const divided = this.#dropped.divided(body, table, hasAside);
    if (divided === null) return { kept: rows, aside: [], nowhere: [] };
    const kept = new Set(divided.kept);
    const aside = new Set(divided.aside);
    return {
      kept: rows.filter((_, at) => kept.has(at)),
      aside: rows.filter((_, at) => aside.has(at)),
      nowhere: rows.filter((_, at) => !kept.has(at) && !aside.has(at)),
    };
  }
}

function readable(namespace: Namespace): ReadableNamespace {
  const { retentionPeriodNanos: retentionNanos } = namespace.options.retentionOptions;
  return { name: namespace.name, retentionNanos, schemas: null, ...rowsSinceOf(namespace) };
}

function windowsOf(namespace: Namespace): WindowsNamespace[] {
  if (!isReady(namespace) || !isOfWindows(namespace)) return [];
  const { name, completeSinceNanos = 0n } = namespace;
  const { retentionPeriodNanos: retentionNanos } = namespace.options.retentionOptions;
  const { resolutionNanos, downsampleAll: takesAll } = aggregationOf(namespace)!;
  return [{ name, retentionNanos, resolutionNanos, completeSinceNanos, takesAll }];
}
