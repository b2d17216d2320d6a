/**
 * A random run of a simulated cluster with several resolutions (docs/AGGREGATION.md): pods come and go, rules change, nodes
 * are away for longer than samples are kept. At the end every window and every rollup is held against what was acknowledged.
 */
import { ruleSetApply } from '#cluster/admin/aggregation_rules.ts';
import { lookingFirst } from '#cluster/kv/looking_first.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { SeededRandom } from '#test/seeded_random.ts';
import { Administration } from '../cluster/administration.ts';
import {
  blockMillis,
  namespace,
  replicaFactor,
  retentionMillis,
  SimulatedCluster,
} from '../cluster/cluster.ts';
import { becomeEqual } from '../cluster/equality.ts';
import { Faults } from '../cluster/faults.ts';
import type { Feature } from '../cluster/features.ts';
import { requestSignal } from '../cluster/request_signal.ts';
import type { SimulatedRow } from '../cluster/series.ts';
import { simulate } from '../cluster/simulate.ts';
import { clusterName, type SimulatedCoordinator } from '../cluster/world.ts';
import { WindowChecks } from '../cluster/windows/checks.ts';
import { count } from '../counts.ts';
import { ResolutionsCoordinator } from './coordinator.ts';
import { FoundChecks } from './found_checks.ts';
import { QueryChecks } from './query_checks.ts';
import { ReadLog } from './read_log.ts';
import { RollupChecks } from './rollup_checks.ts';
import { randomRules, ruleSet, StoredRules } from './rules.ts';
import {
  besideSamples,
  bufferPastMillis,
  resolutions,
  rowNamespaces,
  seriesCount,
} from './shape.ts';

/** Between two rows of a series. */
const rowMillis = 1_000;
/** There are five namespaces of many blocks. */
const repairMillis = 20_000;
const podsMax = 10;
const podMillisMin = 20_000;
const podMillisMax = 400_000;
const faultMillis = 30_000;
/** Of a run one of these. */
const rulesMillis = [120_000, 300_000, 600_000];
const deletionMillis = 60_000;
/** Somebody else makes rollups then, or may. */
const coordinatorMillis = 90_000;
const deletedMillisMax = 20_000;
/** Late rows that rollups still have. */
const lateMillisMax = bufferPastMillis - 8_000;
/** Very late ones, which windows have: they are made, and made again before the rows expire. */
const coldMillisMax = 100_000;
/** A node that is away for so long has let all its samples expire. */
const awayMillisMin = retentionMillis + blockMillis;
/** So long replicas may stay different when nothing ails the cluster any more. */
const equalMillisMax = 2 * blockMillis + bufferPastMillis + 90_000;

/** What befalls it beside the usual. Rules of a store that was restored, and by clocks that are wrong, are not those that were asked for. */
const features: ReadonlySet<Feature> = new Set([
  'lost disks',
  'damage',
  'read errors',
  'hung disks',
  'deletions',
]);

export interface ResolutionsRun {
  readonly seed: number;
  /** Faults of the run, one every half minute. */
  readonly size: number;
  /** Told of what happens, in words; null for nobody. */
  readonly onTrace: ((line: string) => void) | null;
}

/** @throws {Error} that tells what was wrong */
export async function runResolutions({ seed, size, onTrace }: ResolutionsRun): Promise<void> {
  const cluster = new SimulatedCluster(seed, onTrace);
  try {
    await simulate(cluster, onTrace, () => new Run(cluster, size).go());
  } finally {
    for (const [name, history] of cluster.histories) {
      if (!rowNamespaces.includes(name)) continue;
      count(`rows of ${name} acknowledged`, history.acknowledged);
      count(`rows of ${name} of unknown outcome`, history.unknown);
      count(`rows of ${name} refused`, history.refused);
      count(`rows of ${name} checked`, history.checked);
    }
  }
}

/** A series that has rows for a while. */
interface Pod {
  readonly series: number;
  readonly endMillis: number;
  value: number;
}

class Run {
  readonly #cluster: SimulatedCluster;
  readonly #size: number;
  readonly #random: SeededRandom;
  readonly #coordinators = new WeakMap<SimulatedCoordinator['process'], ResolutionsCoordinator>();
  readonly #pods = new Set<Pod>();
  /** Series and time of all rows. */
  readonly #used = new Set<string>();
  readonly #reads = new ReadLog();
  #isOver = false;

  constructor(cluster: SimulatedCluster, size: number) {
    this.#cluster = cluster;
    this.#size = size;
    this.#random = cluster.world.randomFor('run');
  }

  async go(): Promise<void> {
    const cluster = this.#cluster;
    const random = this.#random;
    const { world } = cluster;
    const { time } = world;
    world.repairMillis = repairMillis;
    world.onCoordinator = (coordinator) => {
      const { process, id } = coordinator;
      this.#coordinators.set(process, new ResolutionsCoordinator(coordinator, world.logOf(id)));
    };
    const groups = ['a', 'b', 'c', 'd'].slice(0, replicaFactor + random.below(2));
    await cluster.found({
      nodes: groups.map((group) => `${group}0`),
      coordinators: 2 + random.below(2),
      numShards: 4,
      beside: besideSamples(),
      options: { coldWritesEnabled: true },
      seriesCount,
      bufferPastMillis,
    });
    const rules = new StoredRules(world);
    const windows = resolutions.map((shape) => {
      const keeps = (series: string, endMillis: number): boolean =>
        rules.keepsWindow(shape, series, endMillis);
      return new WindowChecks(cluster, shape, { namespaces: rowNamespaces, keeps });
    });
    const rollups = resolutions.map(
      (shape) => new RollupChecks(cluster, rules, this.#reads, shape),
    );
    const found = new FoundChecks(
      cluster,
      rules,
      (of) => this.#coordinators.get(of.process)!.storage,
    );
    this.#every(5_000, async () => {
      for (const check of windows) check.note();
      for (const check of rollups) await check.note();
    });
    this.#every(rowMillis / 2, () => this.#write());
    this.#every(2_000, () => this.#read());
    this.#every(10_000, () => this.#readAll());
    const queries = new QueryChecks(cluster, rules, (of) => this.#coordinators.get(of.process)!);
    this.#every(10_000, () => found.look(this.#coordinator(), random));
    this.#every(10_000, () => queries.look(this.#coordinator(), random));
    this.#every(coordinatorMillis, async () => world.killCoordinator(this.#coordinator()));
    const administration = new Administration(cluster);
    this.#every(deletionMillis, () => this.#deleteRows(administration));
    this.#every(random.pick(rulesMillis), () => this.#changeRules());
    const faults = new Faults(cluster, features);
    const away = this.#beAway(faults);
    for (let fault = 0; fault < this.#size; fault += 1) {
      await time.sleep(faultMillis * (0.5 + random.fraction()));
      faults.begin();
    }
    await time.sleep(faultMillis);
    await away;
    world.trace('everything is mended');
    await faults.end();
    await cluster.settle();
    this.#isOver = true;
    const stoppedMillis = Math.floor(world.wallMillis);
    await Promise.all(windows.map((check) => check.settle()));
    await cluster.settle();
    await administration.settle();
    await becomeEqual(cluster, equalMillisMax);
    for (const check of windows) await check.checkNoted();
    for (const check of rollups) await check.check(stoppedMillis - 2 * blockMillis);
    await found.check(stoppedMillis);
    await queries.check(stoppedMillis);
    await cluster.checkEveryMajority();
  }

  #every(millis: number, act: () => Promise<unknown>): void {
    const { time } = this.#cluster.world;
    const next = (): void => {
      if (this.#isOver) return;
      act().catch((error: unknown) => time.fail(error));
      time.after(millis * (0.5 + this.#random.fraction()), next);
    };
    next();
  }

  #coordinator(): SimulatedCoordinator {
    return this.#random.pick(this.#cluster.world.coordinators);
  }

  /**
   * Once in the run a node is away until all samples that it has are past retention: the one whose disk has hidden damage,
   * where there is one.
   */
  async #beAway(faults: Faults): Promise<void> {
    const { world } = this.#cluster;
    const random = world.randomFor('away');
    await world.time.sleep(random.below((this.#size * faultMillis) / 2 + 1));
    await this.#cluster.settle();
    const node = faults.nodeThatMayBeAwayForLong(random.pick([...world.nodes.values()]));
    world.trace(`${node.id} is away for longer than samples are kept`);
    this.#cluster.note('nodes away for longer than samples are kept');
    world.turnOff(node, random.below(2) === 0);
    const endMillis = world.time.nowMillis + awayMillisMin + random.below(2 * blockMillis);
    // The end of another fault may turn it on.
    while (world.time.nowMillis < endMillis) {
      if (!node.isOff) world.turnOff(node, false);
      await world.time.sleep(1_000);
    }
    world.turnOn(node);
  }

  async #write(): Promise<void> {
    const random = this.#random;
    const coordinator = this.#coordinator();
    const rows = this.#rows();
    await this.#send(coordinator, rows);
    if (random.below(20) === 0) await this.#send(this.#coordinator(), rows);
  }

  /** One of each pod about once in its interval, some of them late; the last one says that it has ended. */
  #rows(): SimulatedRow[] {
    const random = this.#random;
    const { wallMillis } = this.#cluster.world;
    while (this.#pods.size < podsMax) {
      const lifeMillis = podMillisMin + random.below(podMillisMax - podMillisMin);
      this.#pods.add({
        series: random.below(seriesCount),
        endMillis: wallMillis + lifeMillis,
        value: random.below(1000),
      });
    }
    const rows: SimulatedRow[] = [];
    for (const pod of this.#pods) {
      if (random.below(2) === 0) continue;
      const isOver = wallMillis > pod.endMillis;
      if (isOver) this.#pods.delete(pod);
      // A counter, which begins again now and then.
      pod.value = random.below(60) === 0 ? random.below(5) : pod.value + random.below(10);
      const isLate = random.below(10) === 0 && !isOver;
      const isCold = isLate && random.below(8) === 0;
      const ageMillis = isLate ? random.below(isCold ? coldMillisMax : lateMillisMax) : 0;
      let timeMillis = Math.floor(wallMillis) - ageMillis;
      while (this.#used.has(`${pod.series}@${timeMillis}`)) timeMillis -= 1;
      this.#used.add(`${pod.series}@${timeMillis}`);
      rows.push({ series: pod.series, timeMillis, value: isOver ? Number.NaN : pod.value });
    }
    return rows;
  }

  async #send(coordinator: SimulatedCoordinator, rows: readonly SimulatedRow[]): Promise<void> {
    const cluster = this.#cluster;
    const of = this.#coordinators.get(coordinator.process)!;
    const { kept, aside, nowhere } = of.divided(rows, cluster.table);
    const [samples, dropped] = rowNamespaces as [string, string];
    cluster.note('rows kept nowhere', nowhere.length);
    await Promise.all([
      kept.length === 0 ? null : cluster.write(coordinator, kept, samples, true),
      aside.length === 0 ? null : cluster.write(coordinator, aside, dropped),
    ]);
  }

  async #read(): Promise<void> {
    const random = this.#random;
    const toMillis = Math.floor(this.#cluster.world.wallMillis) - random.below(retentionMillis);
    await this.#cluster.read(this.#coordinator(), {
      fromMillis: toMillis - random.below(30_000),
      toMillis,
      series: random.below(4) === 0 ? null : random.below(seriesCount),
      namespace: random.pick(rowNamespaces),
    });
  }

  /** All rows that there are: where these cannot be read, nobody can make anything of them. */
  async #readAll(): Promise<void> {
    const cluster = this.#cluster;
    const { fromMillis } = cluster.keptMillis(namespace);
    const toMillis = Math.floor(cluster.world.wallMillis);
    const coordinator = this.#coordinator();
    const reads = rowNamespaces.map((name) =>
      cluster.read(coordinator, { fromMillis, toMillis, series: null, namespace: name }),
    );
    const rows = await Promise.all(reads);
    this.#reads.note(
      cluster.world.wallMillis,
      rows.every((some) => some !== null),
    );
  }

  async #deleteRows(administration: Administration): Promise<void> {
    const random = this.#random;
    const { wallMillis } = this.#cluster.world;
    const to = Math.floor(wallMillis) - random.below(random.below(2) * retentionMillis + 1);
    const from = to - random.below(deletedMillisMax);
    const series = random.below(seriesCount);
    const millis = random.below(6) === 0 ? null : { from, to };
    await administration.deleteRows(this.#coordinator(), { namespace, series, millis });
  }

  async #changeRules(): Promise<void> {
    const { world } = this.#cluster;
    const { kv, process, topology, id } = this.#coordinator();
    const file = randomRules(this.#random);
    world.trace(`rules by ${id}: ${JSON.stringify(file)}`);
    const { clock, random } = process.env;
    const own = lookingFirst(kv, (signal) => topology.refresh(signal));
    const target = { kv: own, cluster: clusterName, clock, random };
    const change = { dryRun: false, force: false, by: 'run' };
    try {
      await ruleSetApply(target, ruleSet, file, change, requestSignal());
      this.#cluster.note('changes of rules');
    } catch (error) {
      if (!(error instanceof TsdbError)) throw error;
      world.trace(`rules by ${id}: ${messageOf(error)}`);
      this.#cluster.note('changes of rules that were refused or not answered');
    }
  }
}
