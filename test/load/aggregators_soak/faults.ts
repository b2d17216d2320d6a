/**
 * What befalls aggregators: leaders are killed at random moments, the placement changes meanwhile, and once in the middle the
 * key-value store hangs.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { SeededRandom } from '../../seeded_random.ts';
import type { Aggregator, SoakCluster } from './cluster.ts';
import { latenessMillis, windowMillis } from './data.ts';

export interface FaultsOptions {
  readonly kills: number;
  readonly changes: number;
  /** Between two kills, and a random time more. */
  readonly betweenMillis: number;
  readonly storeAwayMillis: number;
}

export interface FaultRecord {
  readonly time: string;
  readonly name: 'kill' | 'change' | 'store hangs';
  readonly what: string;
}

/** Two kills are further apart, so that the windows of between are made by whoever leads then. */
export const betweenMillisMin: number = windowMillis + latenessMillis;
const moreMillisMax = 10_000;
/** Until who was killed is started again. */
const downMillisMin = 2_000;
const downMillisMax = 8_000;
/** Until there is a leader that can be killed: a lease ends, another one sees it, and looks for rules. */
const leaderTimeoutMillis = 180_000;
const lookMillis = 250;

export class Faults {
  readonly #cluster: SoakCluster;
  readonly #random: SeededRandom;
  readonly #report: (line: string) => void;
  readonly records: FaultRecord[] = [];
  /** A pair that is in no placement, though its processes run. */
  #removed: readonly Aggregator[] | null = null;
  /** Processes of those whose place others have, which go on for a while. */
  readonly #retiring: Promise<void>[] = [];
  #replacements = 0;
  #changesMade = 0;

  constructor(cluster: SoakCluster, random: SeededRandom, report: (line: string) => void) {
    this.#cluster = cluster;
    this.#random = random;
    this.#report = report;
  }

  async run(
    { kills, changes, betweenMillis, storeAwayMillis }: FaultsOptions,
    interrupted: AbortSignal,
  ): Promise<void> {
    const turns = Math.max(1, kills, changes);
    for (let turn = 0; turn < turns && !interrupted.aborted; turn++) {
      if (turn === Math.floor(turns / 2)) await this.#hangStore(storeAwayMillis);
      await delay(this.#random.below(moreMillisMax));
      const killed = share(kills, turns, turn) > 0 ? await this.#killLeader() : null;
      await Promise.all([
        killed === null ? null : this.#beginAgain(killed),
        this.#changeSome(share(changes, turns, turn), betweenMillis),
        delay(betweenMillis),
      ]);
    }
    await Promise.all(this.#retiring);
  }

  async #hangStore(awayMillis: number): Promise<void> {
    this.#note('store hangs', `${awayMillis / 1_000} s`);
    this.#cluster.hangStore(true);
    try {
      await delay(awayMillis);
    } finally {
      this.#cluster.hangStore(false);
    }
  }

  async #killLeader(): Promise<Aggregator> {
    const leader = await this.#someLeader();
    await this.#cluster.kill(leader);
    this.#note('kill', leader.id);
    return leader;
  }

  async #beginAgain(killed: Aggregator): Promise<void> {
    await delay(downMillisMin + this.#random.below(downMillisMax - downMillisMin));
    // Somebody else may have its place by now.
    if (this.#cluster.aggregators.includes(killed)) this.#cluster.begin(killed);
  }

  async #someLeader(): Promise<Aggregator> {
    const end = performance.now() + leaderTimeoutMillis;
    for (;;) {
      const leaders = await this.#cluster.leaders();
      if (leaders.length > 0) return this.#random.pick(leaders);
      if (performance.now() > end) throw new Error('no aggregator leads for three minutes');
      await delay(lookMillis);
    }
  }

  async #changeSome(count: number, millis: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      await delay(this.#random.below(millis / count));
      await this.#change();
    }
  }

  /** An instance is replaced, a pair is removed, and the pair comes back, in turns. */
  async #change(): Promise<void> {
    const kind = this.#changesMade % 3;
    this.#changesMade += 1;
    if (kind === 0) return this.#replace();
    return kind === 1 ? this.#removePair() : this.#addPair();
  }

  async #replace(): Promise<void> {
    const { instances } = await this.#cluster.placement();
    const placed = this.#cluster.aggregators.filter(({ id }) => instances[id] !== undefined);
    const leaving = this.#random.pick(placed);
    this.#replacements += 1;
    const id = `agg-${leaving.group}${placed.length / 2 + this.#replacements}`;
    const candidate = await this.#cluster.startAggregator(id, leaving.group);
    await this.#cluster.ready(candidate);
    await this.#cluster.replace(leaving, candidate);
    this.#note('change', `${leaving.id} replaced by ${candidate.id}`);
    const retire = (): Promise<void> => this.#cluster.retire(leaving);
    this.#retiring.push(delay(downMillisMax).then(retire));
  }

  async #removePair(): Promise<void> {
    const { instances } = await this.#cluster.placement();
    const pairs = [
      ...Map.groupBy(
        this.#cluster.aggregators.filter(({ id }) => instances[id] !== undefined),
        ({ id }) => instances[id]!.shardSetId,
      ).values(),
    ];
    this.#removed = this.#random.pick(pairs);
    await this.#cluster.remove(this.#removed);
    this.#note('change', `${namesOf(this.#removed)} removed`);
  }

  async #addPair(): Promise<void> {
    const pair = this.#removed!;
    this.#removed = null;
    await this.#cluster.add(pair);
    this.#note('change', `${namesOf(pair)} added`);
  }

  #note(name: FaultRecord['name'], what: string): void {
    const time = new Date().toISOString();
    this.records.push({ time, name, what });
    this.#report(`${time} ${name}: ${what}`);
  }
}

const namesOf = (pair: readonly Aggregator[]): string => pair.map(({ id }) => id).join(' and ');

/** How many of all fall into a turn, when they are spread evenly. */
function share(all: number, turns: number, turn: number): number {
  return Math.floor(((turn + 1) * all) / turns) - Math.floor((turn * all) / turns);
}
