/** What people do in a random run, one step at a time: namespaces come and go, rows are deleted. */
import type { SeededRandom } from '#test/seeded_random.ts';
import { Administration, type DeletedRows } from './administration.ts';
import { blockMillis, retentionMillis, seriesCount, type SimulatedCluster } from './cluster.ts';
import type { SimulatedCoordinator } from './world.ts';

/** Names that namespaces beside the first one have, again and again. */
const names = ['one', 'two'];
/** Every block of a row must be closed before it expires. */
const retentionsMillis = [3 * blockMillis, 4 * blockMillis, retentionMillis];
const deletedMillisMax = 20_000;

export class Changes {
  readonly #cluster: SimulatedCluster;
  readonly #random: SeededRandom;
  readonly administration: Administration;
  /** Namespaces that somebody is changing just now. */
  readonly #busy = new Set<string>();

  constructor(cluster: SimulatedCluster) {
    this.#cluster = cluster;
    this.#random = cluster.world.randomFor('changes');
    this.administration = new Administration(cluster);
  }

  /** Whether no namespace is being changed. */
  get isIdle(): boolean {
    return this.#busy.size === 0;
  }

  /** Some rows, or all of a series, or all of a namespace. */
  async deleteRows(): Promise<void> {
    const { world } = this.#cluster;
    const random = this.#random;
    if (random.below(8) === 0) {
      await this.administration.clean(this.#coordinator());
      return;
    }
    const to = Math.floor(world.wallMillis) - random.below(random.below(2) * retentionMillis + 1);
    const from = to - random.below(deletedMillisMax);
    const rows: DeletedRows = {
      namespace: random.pick(this.#cluster.sampleNamespaces()),
      series: random.below(6) === 0 ? null : random.below(seriesCount),
      millis: random.below(12) === 0 ? null : { from, to },
    };
    await this.administration.deleteRows(this.#coordinator(), rows);
  }

  /** One namespace is made, changed, emptied or deleted. */
  async changeNamespace(): Promise<void> {
    const random = this.#random;
    const name = random.pick(names);
    if (this.#busy.has(name)) return;
    this.#busy.add(name);
    const by = this.#coordinator();
    // Who has ended changes nothing any more.
    const giveUp = (): void => void this.#busy.delete(name);
    by.process.onEnd.add(giveUp);
    await this.#change(by, name);
    by.process.onEnd.delete(giveUp);
    giveUp();
  }

  async #change(by: SimulatedCoordinator, name: string): Promise<void> {
    const random = this.#random;
    const { administration } = this;
    if (!this.#cluster.namespaces().has(name)) {
      await administration.addNamespace(by, name);
      return;
    }
    const step = random.below(10);
    if (step < 3) await administration.truncate(by, name);
    else if (step < 5) await administration.setRetention(by, name, random.pick(retentionsMillis));
    else if (step < 8) await administration.deleteNamespace(by, name);
    else if (await administration.deleteNamespace(by, name)) {
      await administration.addNamespace(by, name);
    }
  }

  #coordinator(): SimulatedCoordinator {
    return this.#random.pick(this.#cluster.world.coordinators);
  }
}
