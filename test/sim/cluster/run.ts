/**
 * A random run of a simulated cluster: writers and readers at a steady pace, a fault every half
 * minute, and at the end a cluster that must have recovered by itself.
 */
import { plainRequest } from '#cluster/admin/placement_requests.ts';
import { TsdbError } from '#lib/errors.ts';
import { formatLevelNewest } from '#lib/format_level.ts';
import type { SeededRandom } from '#test/seeded_random.ts';
import { count } from '../counts.ts';
import {
  blockMillis,
  bufferPastMillis,
  namespace,
  retentionMillis,
  seriesCount,
  SimulatedCluster,
} from './cluster.ts';
import { Changes } from './changes.ts';
import { becomeEqual } from './equality.ts';
import { Faults } from './faults.ts';
import type { Feature } from './features.ts';
import type { SimulatedRow } from './series.ts';
import type { SimulatedCoordinator } from './world.ts';
import { requestSignal } from './request_signal.ts';
import { simulate } from './simulate.ts';
import { WindowChecks } from './windows/checks.ts';
import { aggregatedNamespace, usualWindows } from './windows/shape.ts';

const writeMillis = 100;
const readMillis = 200;
const faultMillis = 30_000;
const deletionMillis = 6_000;
const namespaceMillis = 8_000;
/** So late rows come at most where there are windows: these are made, and made again before the rows expire. */
const lateForWindowsMillisMax = 100_000;
/** A cluster that takes longer to settle is written to less often, or it would take us long too. */
const settledUsuallyMillis = 60_000;
const slowPace = 10;
/**
 * So long replicas may stay different when nothing ails the cluster any more: until the last block
 * is closed, flushed and compared.
 */
const equalMillisMax = blockMillis + bufferPastMillis + 60_000;
/** Until the end of an upgrade is tried again. */
const upgradeRetryMillis = 5_000;
const upgradePatienceMillis = 20_000;
/** So long may nodes of a cluster that has settled not know that its upgrade is finished. */
const upgradeMillisMax = 60_000;
/** Rows that may be written again. */
const recentMax = 40;

export interface RunOptions {
  readonly seed: number;
  /** Faults of the run, one every half minute. */
  readonly size: number;
  readonly features: ReadonlySet<Feature>;
  /** Told of what happens, in words; null for nobody. */
  readonly onTrace: ((line: string) => void) | null;
}

export interface RunReport {
  readonly traceHash: number;
  readonly events: number;
  readonly simulatedSeconds: number;
}

/** @throws {Error} that tells what was wrong */
export async function runCluster(options: RunOptions): Promise<RunReport> {
  const cluster = new SimulatedCluster(options.seed, options.onTrace);
  const run = new Run(cluster, options);
  const { time, network } = cluster.world;
  try {
    await simulate(cluster, options.onTrace, () => run.go());
  } finally {
    for (const history of cluster.histories.values()) {
      count('rows acknowledged', history.acknowledged);
      count('rows of unknown outcome', history.unknown);
      count('rows refused', history.refused);
      count('rows checked', history.checked);
      count('rows checked to be gone', history.checkedAbsent);
    }
    count('messages', network.counts.arrived);
    count('events', time.count);
  }
  return {
    traceHash: cluster.world.traceHash,
    events: time.count,
    simulatedSeconds: time.nowMillis / 1000,
  };
}

class Run {
  readonly #cluster: SimulatedCluster;
  readonly #options: RunOptions;
  readonly #random: SeededRandom;
  /** By namespace. */
  readonly #recent = new Map<string, SimulatedRow[]>();
  /** Namespace, series and time of all rows. */
  readonly #used = new Set<string>();
  #nextValue = 1;
  #pace = 1;
  /** The release before does not keep the versions that tell a rewrite from what it replaces. */
  #isUpgraded = false;
  #isOver = false;
  #lateMillisMax = 0;

  constructor(cluster: SimulatedCluster, options: RunOptions) {
    this.#cluster = cluster;
    this.#options = options;
    this.#random = cluster.world.randomFor('run');
  }

  async go(): Promise<void> {
    const cluster = this.#cluster;
    const random = this.#random;
    const { size, features } = this.#options;
    const { world } = cluster;
    const { time } = world;
    const groups = ['a', 'b', 'c', 'd'].slice(0, 3 + random.below(2));
    // A third of the runs, which have floats alone: of those that a typed row has replaced windows may know.
    const hasWindows = features.has('windows') && world.randomFor('windows').below(3) === 0;
    // Windows are made, and rows deleted and written anew, when the upgrade is finished: from the beginning there.
    const isOld = features.has('upgrade') && !hasWindows;
    await cluster.found({
      nodes: groups.flatMap((group) =>
        random.below(3) === 0 ? [`${group}0`, `${group}1`] : [`${group}0`],
      ),
      coordinators: 2 + random.below(2),
      numShards: 4,
      isOfFormerRelease: isOld,
      writesTypedRows: !hasWindows,
      beside: hasWindows ? [aggregatedNamespace(usualWindows)] : [],
      options: { coldWritesEnabled: hasWindows },
    });
    this.#lateMillisMax = hasWindows ? lateForWindowsMillisMax : bufferPastMillis - 5_000;
    const windows = hasWindows ? new WindowChecks(cluster, usualWindows) : null;
    if (windows !== null) this.#every(blockMillis / 6, async () => windows.note());
    this.#every(writeMillis, () => this.#write());
    this.#every(readMillis, () => this.#read());
    this.#every(blockMillis, async () => {
      const before = world.wallMillis - retentionMillis - blockMillis;
      for (const history of cluster.histories.values()) history.forgetBefore(before);
    });
    const changes = new Changes(cluster);
    if (features.has('deletions')) {
      // At format level 1 late ones take rows of sealed chunks that were written after them.
      this.#every(deletionMillis, async () => this.#isUpgraded && changes.deleteRows());
    }
    // Windows are of the rows of all namespaces, each of which would have to have every row.
    if (features.has('namespaces') && !hasWindows)
      this.#every(namespaceMillis, () => changes.changeNamespace());
    this.#isUpgraded = !isOld;
    const isFinished = this.#isUpgraded ? null : this.#finishUpgrade();
    const faults = new Faults(cluster, features);
    for (let fault = 0; fault < size; fault += 1) {
      await time.sleep(faultMillis * (0.5 + random.fraction()));
      faults.begin();
    }
    await time.sleep(faultMillis);
    world.trace('everything is mended');
    await faults.end();
    // Who restores the store may start all processes again then.
    await time.until(() => world.kvStore.memory !== null);
    const slowDown = time.after(settledUsuallyMillis, () => {
      this.#pace = slowPace;
    });
    await cluster.settle();
    slowDown.cancel();
    this.#isOver = true;
    const windowsSettled = windows?.settle();
    await time.until(() => changes.isIdle);
    await cluster.settle();
    await changes.administration.settle();
    await isFinished;
    await this.#allWriteNewestFormats();
    if (features.has('equality')) await becomeEqual(cluster, equalMillisMax);
    await windowsSettled;
    await windows?.checkNoted();
    await cluster.checkEveryMajority();
  }

  /** At some time of the run, as soon as all nodes that are asked answer. */
  async #finishUpgrade(): Promise<void> {
    const { time } = this.#cluster.world;
    const random = this.#cluster.world.randomFor('upgrade');
    await time.sleep(random.below(this.#options.size * faultMillis + 1));
    for (;;) {
      try {
        const { admin } = this.#cluster.world.coordinators[0]!;
        const finishing = admin.upgradeFinish(plainRequest, requestSignal()).then(() => true);
        // A coordinator that ends meanwhile says nothing.
        const patience = time.sleep(upgradePatienceMillis).then(() => false);
        if (!(await Promise.race([finishing, patience]))) continue;
        this.#isUpgraded = true;
        return;
      } catch (error) {
        if (!(error instanceof TsdbError)) throw error;
        await time.sleep(upgradeRetryMillis);
      }
    }
  }

  /** Folders that were wiped, and nodes that joined since, hear of it too. */
  async #allWriteNewestFormats(): Promise<void> {
    const { world } = this.#cluster;
    const levels = (): (number | undefined)[] =>
      [...world.nodes.values()].map(({ runtime }) => runtime?.database.formats.level());
    const endMillis = world.time.nowMillis + upgradeMillisMax;
    while (levels().some((level) => level !== formatLevelNewest)) {
      if (world.time.nowMillis > endMillis) {
        this.#cluster.fail(`nodes write formats of other levels: ${levels().join()}`);
      }
      await world.time.sleep(1_000);
    }
  }

  #every(millis: number, act: () => Promise<unknown>): void {
    const { time } = this.#cluster.world;
    const next = (): void => {
      if (this.#isOver) return;
      act().catch((error: unknown) => time.fail(error));
      time.after(millis * this.#pace * (0.5 + this.#random.fraction()), next);
    };
    next();
  }

  #coordinator(): SimulatedCoordinator {
    return this.#random.pick(this.#cluster.world.coordinators);
  }

  /** The first one in half of the cases, where there are others. */
  #namespace(): string {
    const names = this.#cluster.sampleNamespaces();
    if (names.length < 2 || this.#random.below(2) === 0) return namespace;
    return this.#random.pick(names);
  }

  async #write(): Promise<void> {
    const name = this.#namespace();
    const rows = new Map<string, SimulatedRow>();
    for (let left = 1 + this.#random.below(6); left > 0; left -= 1) {
      const row = this.#nextRow(name);
      // One request has a time of a series once: which of two stays is not said.
      rows.set(`${row.series}@${row.timeMillis}`, row);
    }
    const sent = [...rows.values()];
    const outcomes = await this.#cluster.write(this.#coordinator(), sent, name);
    const written = sent.filter((_, i) => outcomes[i] === 'acknowledged');
    const recent = [...(this.#recent.get(name) ?? []), ...written];
    this.#recent.set(name, recent.slice(-recentMax));
  }

  #nextRow(name: string): SimulatedRow {
    const random = this.#random;
    const value = valueOf(this.#nextValue);
    this.#nextValue += 1;
    const isRewrite =
      random.below(20) === 0 && this.#options.features.has('rewrites') && this.#isUpgraded;
    const recent = this.#recent.get(name) ?? [];
    if (isRewrite && recent.length > 0) {
      const { series, timeMillis } = random.pick(recent);
      return { series, timeMillis, value };
    }
    const isLate = random.below(5) === 0;
    const ageMillis = random.below(isLate ? this.#lateMillisMax : 1000);
    let timeMillis = Math.floor(this.#cluster.world.wallMillis) - ageMillis;
    const series = random.below(seriesCount);
    // Two writes would else have one time of a series by chance: a rewrite, which has to be asked
    // for.
    while (this.#used.has(`${name} ${series}@${timeMillis}`)) timeMillis -= 1;
    this.#used.add(`${name} ${series}@${timeMillis}`);
    return { series, timeMillis, value };
  }

  async #read(): Promise<void> {
    const random = this.#random;
    const ageMillis = random.below(10) === 0 ? retentionMillis : blockMillis;
    const toMillis = Math.floor(this.#cluster.world.wallMillis) - random.below(ageMillis);
    const fromMillis = toMillis - random.below(30_000);
    const series = random.below(4) === 0 ? null : random.below(seriesCount);
    await this.#cluster.read(this.#coordinator(), {
      fromMillis,
      toMillis,
      series,
      namespace: this.#namespace(),
    });
  }
}

/**
 * Another value for each number, in no order: of two rows with one version the larger value stays, which
 * must not be the later one by chance of the test.
 */
function valueOf(number: number): number {
  return Math.imul(number, 0x9e3779b1) >>> 0;
}
