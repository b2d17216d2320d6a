/**
 * A cluster that is changed, cut and restarted at random while it is written to: whatever was
 * acknowledged at majority must be in every majority read, under the placement of that moment.
 * After each step this is asked of the nodes themselves: of the replicas that may be read, at most
 * one may lack it.
 */
import { bootstrappedFrom } from '../placement/placement_testing.ts';
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { shardOf } from '#lib/hashing/hash.ts';

import { FakeCluster, keyOfJob } from './fakes_testing.ts';

export async function fuzz(seed: number, size: number): Promise<void> {
  const random = randomOf(seed);
  const groups = ['a', 'b', 'c', 'd'].slice(0, 3 + (seed % 2));
  await using cluster = await FakeCluster.start(
    groups.map((group) => `${group}0`),
    { replicaFactor: 3, numShards: 4 },
  );
  const run = new Run(cluster, random, groups);
  for (let step = 0; step < size; step++) await run.step();
  await run.end();
}

class Run {
  readonly #cluster: FakeCluster;
  readonly #random: (below: number) => number;
  readonly #groups: readonly string[];
  readonly #acknowledged: { readonly job: string; readonly seconds: number }[] = [];
  readonly #pending: Promise<void>[] = [];
  /** What instances have bootstrapped and not yet marked: shard → its source then. */
  readonly #streamed = new Map<string, Map<number, string>>();
  #nextInstance = 1;
  #nextValue = 1;
  readonly #trace: string[] = [];

  constructor(cluster: FakeCluster, random: (below: number) => number, groups: readonly string[]) {
    this.#cluster = cluster;
    this.#random = random;
    this.#groups = groups;
  }

  async step(): Promise<void> {
    const dice = this.#random(24);
    if (dice < 8) await this.#write();
    else if (dice < 10) await this.#read();
    else if (dice < 14) this.#switchNode();
    else if (dice < 15) await this.#restart();
    else if (dice < 16) this.#cluster.held ??= this.#cluster.topology.view;
    else if (dice < 18) await this.#changePlacement();
    else if (dice < 21) await this.#stream();
    else await this.#mark();
    await this.#check();
  }

  async end(): Promise<void> {
    for (const node of this.#cluster.nodes.values()) node.mode = 'up';
    await Promise.all(this.#pending);
    await this.#check();
    await this.#read();
  }

  /** Several jobs at one second, each second once, so that every value is of one write. */
  async #write(): Promise<void> {
    const seconds = this.#nextValue++;
    const jobs = new Set(Array.from({ length: 1 + this.#random(4) }, () => `j${this.#random(12)}`));
    const points = [...jobs].map((job) => [job, seconds, seconds] as const);
    const writing = this.#cluster.write(points).then(({ outcomes }) => {
      for (const [i, [job]] of points.entries()) {
        if (outcomes === null || outcomes[i] === 0) this.#acknowledged.push({ job, seconds });
      }
      this.#trace.push(`wrote ${seconds}: ${[...jobs].join()} → ${outcomes?.join() ?? 'all'}`);
    });
    this.#pending.push(writing);
    // The next steps may come in between.
    if (this.#random(2) === 0) await writing;
    else await turn();
  }

  async #read(): Promise<void> {
    const known = [...this.#acknowledged];
    let found: Map<string, string>;
    try {
      const { bundle } = await this.#cluster.fetch({ consistency: 'majority' });
      found = new Map();
      for (let i = 0; i < bundle.seriesCount; i++) {
        const tags = bundle.tagsData.subarray(bundle.tagsOffset[i], bundle.tagsOffset[i + 1]);
        const job = /job..(j\d+)/s.exec(Buffer.from(tags).toString('latin1'))![1]!;
        const chunk = bundle.chunkData.subarray(bundle.chunkOffset[i], bundle.chunkOffset[i + 1]);
        found.set(job, Buffer.from(chunk).toString());
      }
    } catch (error) {
      this.#trace.push(`read: ${String(error)}`);
      return;
    }
    this.#trace.push('read');
    for (const { job, seconds } of known) {
      const points = found.get(job)?.split(';') ?? [];
      this.#require(points.includes(`${seconds}000000000=${seconds}`), `${job} ${seconds} is read`);
    }
  }

  async #check(): Promise<void> {
    const { value } = await this.#cluster.admin.placements.require(this.#cluster.signal);
    for (const { job, seconds } of this.#acknowledged) {
      const key = keyOfJob(job);
      const shard = shardOf(Buffer.from(key), value.numShards);
      const lacking = value.instances.filter(
        ({ id, shards }) =>
          shards.some((each) => each.id === shard && each.state !== 'INITIALIZING') &&
          !this.#cluster
            .node(id)
            .samples.get(key)
            ?.has(BigInt(seconds) * 1_000_000_000n),
      );
      const ids = lacking.map(({ id }) => id).join();
      this.#require(
        lacking.length <= 1,
        `${job} ${seconds} of shard ${shard} is on all but ${ids}`,
      );
    }
  }

  #require(holds: boolean, statement: string): void {
    assert.ok(holds, `not so: acknowledged ${statement}\n${this.#trace.join('\n')}`);
  }

  /** At most two are down at a time. */
  #switchNode(): void {
    const node = this.#pickNode();
    const down = [...this.#cluster.nodes.values()].filter(({ mode }) => mode === 'down');
    if (node.mode === 'up' && down.length === 2) down[0]!.mode = 'up';
    node.mode = node.mode === 'up' ? 'down' : 'up';
    this.#trace.push(`${node.id} is ${node.mode}`);
  }

  /** Sometimes with an empty folder. */
  async #restart(): Promise<void> {
    const node = this.#pickNode();
    node.restart();
    const { admin, signal } = this.#cluster;
    const { value } = await admin.placements.require(signal);
    const isLost = this.#random(2) === 0 && value.instances.some(({ id }) => id === node.id);
    if (isLost) {
      node.samples.clear();
      this.#streamed.delete(node.id);
      await admin.resetInstance(node.id, signal);
      await this.#cluster.adopt();
    }
    this.#trace.push(`${node.id} restarts${isLost ? ' empty' : ''}`);
  }

  async #changePlacement(): Promise<void> {
    const { admin, signal } = this.#cluster;
    const instances = (await admin.placements.require(signal)).value.instances;
    const { id } = instances[this.#random(instances.length)]!;
    const fresh = () => {
      const name = `${this.#groups[this.#random(this.#groups.length)]!}${this.#nextInstance++}`;
      return { id: name, isolationGroup: name[0], endpoint: `${name}:9000` };
    };
    const options = { dryRun: false, force: this.#random(2) === 0 };
    const kind = this.#random(3);
    try {
      if (kind === 0) await admin.placementAdd({ instances: [fresh()] }, options, signal);
      else if (kind === 1) await admin.placementRemoveInstance(id, options, signal);
      else {
        const body = { leavingInstanceIDs: [id], candidates: [fresh()] };
        await admin.placementReplace(body, options, signal);
      }
      this.#trace.push(`${['add', 'remove', 'replace'][kind]!} ${id}`);
    } catch (error) {
      assert.equal((error as { code?: string }).code, 'BAD_REQUEST', String(error));
    }
    await this.#cluster.adopt();
  }

  /** One instance takes its shards over from their sources, and does not mark them yet. */
  async #stream(): Promise<void> {
    const { admin, signal } = this.#cluster;
    const { value } = await admin.placements.require(signal);
    const { id, shards } = value.instances[this.#random(value.instances.length)]!;
    const mine = this.#cluster.node(id);
    const ready = this.#streamed.get(id) ?? new Map<number, string>();
    this.#streamed.set(id, ready);
    for (const shard of shards) {
      if (shard.state !== 'INITIALIZING' || mine.mode === 'down') continue;
      // From its source; without one from a majority of the replicas.
      const peers = value.instances.filter(
        (peer) =>
          (shard.sourceId === '' || shard.sourceId === peer.id) &&
          peer.shards.some(({ id: of, state }) => of === shard.id && state !== 'INITIALIZING') &&
          this.#cluster.node(peer.id).mode === 'up',
      );
      if (peers.length < (shard.sourceId === '' ? 2 : 1)) continue;
      for (const peer of peers) mine.takeShard(shard.id, this.#cluster.node(peer.id));
      ready.set(shard.id, shard.sourceId);
    }
    this.#trace.push(`${id} streamed ${[...ready].join(' ')}`);
  }

  /** One instance marks what it has streamed. */
  async #mark(): Promise<void> {
    const { admin, signal } = this.#cluster;
    const { value } = await admin.placements.require(signal);
    const { id } = value.instances[this.#random(value.instances.length)]!;
    await admin.markAvailable(id, bootstrappedFrom(this.#streamed.get(id) ?? new Map()), signal);
    this.#streamed.delete(id);
    await this.#cluster.adopt();
    // Shards that an instance has given up are gone there.
    const after = (await admin.placements.require(signal)).value;
    for (const node of this.#cluster.nodes.values()) {
      const owned = after.instances.find((instance) => instance.id === node.id)?.shards ?? [];
      const kept = new Set(owned.map((shard) => shard.id));
      node.keepShards(kept);
      const streamed = this.#streamed.get(node.id);
      for (const shard of streamed?.keys() ?? []) if (!kept.has(shard)) streamed!.delete(shard);
    }
    this.#trace.push(`${id} marks`);
  }

  #pickNode(): ReturnType<FakeCluster['node']> {
    const nodes = [...this.#cluster.nodes.values()];
    return nodes[this.#random(nodes.length)] ?? this.#cluster.node(`${this.#groups[0]!}0`);
  }
}

/** Whole numbers below a bound, from a seed. */
function randomOf(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}
