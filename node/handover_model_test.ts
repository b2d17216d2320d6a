/**
 * A model of one shard with three replicas: instances know one version of the placement each, writers
 * and readers any. The rules are those of the product: who may change the placement to what, who
 * refuses whom, who counts.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addInstances,
  initPlacement,
  markShardsAvailable,
  removeInstances,
  replaceInstances,
  resetInstance,
} from '#cluster/placement/algorithm.ts';
import { isSameAssignment, withAssignments } from '#cluster/placement/assignments.ts';
import { finishHandovers, retiredOwners } from '#cluster/placement/handover.ts';
import {
  type InstanceInfo,
  type Placement,
  placementProblem,
} from '#cluster/placement/placement.ts';
import { Ownership } from '#cluster/topology/ownership.ts';
import { TsdbError } from '#lib/errors.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { donorPlan } from './bootstrap/donors.ts';
import { type OwnedShard, ShardTable } from './storage/namespace/shards.ts';

const majority = 2;

function info(id: string): InstanceInfo {
  return {
    id,
    isolationGroup: id[0]!,
    zone: 'embedded',
    weight: 1,
    endpoint: `${id}:9000`,
    hostname: id,
    port: 9000,
    shardSetId: 0,
    debugPort: 0,
  };
}

class ModelNode {
  readonly id: string;
  table: ShardTable;
  readonly rows: Set<number> = new Set();
  /** As what it has fetched the shard, while it is INITIALIZING. */
  fetchedAs: OwnedShard | null = null;
  isReady = false;

  constructor(id: string) {
    this.id = id;
    this.table = new ShardTable(id);
  }

  adopt(placement: Placement, version: number): void {
    this.table.adopt(placement, version);
    const owned = this.table.get(0);
    if (owned === undefined) {
      this.rows.clear();
      this.isReady = false;
      this.fetchedAs = null;
    } else if (owned.state === 'INITIALIZING') {
      const isGoingOn = this.fetchedAs !== null && isSameAssignment(this.fetchedAs, owned);
      if (!isGoingOn) this.isReady = false;
    }
  }

  /** Whether its answer counts for a reader. */
  answers(version: number): boolean {
    const owned = this.table.get(0);
    if (owned === undefined || owned.state === 'INITIALIZING' || owned.isRetired) return false;
    return this.isReady && !this.table.readerIsStale(0, version);
  }
}

class Model {
  readonly random: SeededRandom;
  /** Version v at v - 1. */
  readonly history: Placement[] = [];
  readonly nodes: Map<string, ModelNode> = new Map();
  readonly acknowledged: Set<number> = new Set();
  readonly trace: string[] = [];
  readonly counts: Record<string, number> = {};
  #nextRow = 0;
  #nextInstance = 0;
  #nextAssignment = 0;

  constructor(seed: number) {
    this.random = new SeededRandom(seed);
    const first = ['a', 'b', 'c'].map((group) => this.#fresh(group));
    this.#store(initPlacement(first, { numShards: 1, replicaFactor: 3 }));
    for (const { id } of first) {
      const node = this.node(id);
      this.adopt(node, 1);
      node.isReady = true;
      node.fetchedAs = node.table.get(0)!;
    }
    for (const { id } of first) this.mark(this.node(id));
  }

  get latest(): Placement {
    return this.history.at(-1)!;
  }

  node(id: string): ModelNode {
    let node = this.nodes.get(id);
    if (node === undefined) this.nodes.set(id, (node = new ModelNode(id)));
    return node;
  }

  some<T>(all: readonly T[]): T {
    return all[this.random.below(all.length)]!;
  }

  #fresh(group: string): InstanceInfo {
    return info(`${group}${this.#nextInstance++}`);
  }

  #store(next: Placement): void {
    const before = this.history.at(-1) ?? null;
    if (next === before) return;
    const placement = withAssignments(before, next, `${this.#nextAssignment++}`);
    assert.equal(placementProblem(placement), null);
    this.history.push(placement);
  }

  /** What a node does that is asked for a version: it hears of that one at least, or refuses. */
  reaches(node: ModelNode, version: number): boolean {
    if (node.table.version >= version) return true;
    if (this.random.below(4) === 0) return false;
    const more = this.random.below(2) * this.random.below(this.history.length - version + 1);
    this.adopt(node, version + more);
    return true;
  }

  adopt(node: ModelNode, version: number): void {
    if (node.table.version < version) node.adopt(this.history[version - 1]!, version);
  }

  write(version: number): void {
    const { instances, classes } = new Ownership(this.history[version - 1]!);
    const { members, replicas } = classes[0]!;
    const row = this.#nextRow++;
    let acks = 0;
    for (const [bit, index] of members.entries()) {
      const node = this.node(instances[index]!.id);
      if (this.random.below(4) === 0 || !this.reaches(node, version)) continue;
      if (node.table.get(0) === undefined || node.table.writerIsStale(0, version)) continue;
      node.rows.add(row);
      acks |= 1 << bit;
    }
    const isDone = replicas.filter(({ mask }) => (acks & mask) === mask).length >= majority;
    if (isDone) this.acknowledged.add(row);
    this.#note(`write ${row} at ${version}: ${isDone ? 'acknowledged' : 'not'}`, isDone);
  }

  /** Any majority of answers that count has every acknowledged row. */
  read(version: number): void {
    const { instances, readableShards } = new Ownership(this.history[version - 1]!);
    const answers = instances.flatMap(({ id }, index) => {
      const node = this.node(id);
      if (readableShards[index]!.length === 0 || !this.reaches(node, version)) return [];
      return node.answers(version) ? [node] : [];
    });
    const isStale = version < this.history.length;
    const what = isStale ? 'stale reads' : 'reads';
    this.#note(`read at ${version}: ${answers.map(({ id }) => id).join()}`, false);
    for (const [i, one] of answers.entries()) {
      for (const other of answers.slice(i + 1)) {
        this.counts[what] = (this.counts[what] ?? 0) + 1;
        const missing = this.acknowledged.difference(one.rows.union(other.rows));
        if (missing.size === 0) continue;
        assert.fail(
          `${one.id} and ${other.id} lack ${[...missing].join()}: ${this.trace.join('\n')}`,
        );
      }
    }
  }

  stream(node: ModelNode): void {
    this.reaches(node, this.history.length);
    const { table } = node;
    const owned = table.get(0);
    if (owned?.state !== 'INITIALIZING' || table.placement === null) return;
    const plan = donorPlan(table.placement, node.id, owned, this.random.below(2) === 0);
    const donors = plan.candidates
      .map(({ id }) => this.node(id))
      .filter((donor) => {
        if (this.random.below(4) === 0 || !this.reaches(donor, table.version)) return false;
        const state = donor.table.get(0)?.state;
        return donor.isReady && state !== undefined && state !== 'INITIALIZING';
      });
    if (donors.length < plan.needed) return;
    for (const donor of donors) for (const row of donor.rows) node.rows.add(row);
    node.isReady = true;
    node.fetchedAs = owned;
    this.#note(`${node.id} streams from ${donors.map(({ id }) => id).join()}`);
  }

  mark(node: ModelNode): void {
    const { fetchedAs } = node;
    if (!node.isReady || fetchedAs === null || !this.#has(node.id)) return;
    this.#store(
      markShardsAvailable(this.latest, node.id, (shard) => isSameAssignment(fetchedAs, shard)),
    );
    this.#note(`${node.id} marks`);
  }

  finish(): void {
    const reached = this.latest.instances.filter(() => this.random.below(3) > 0);
    const known = reached.map(({ id }) => {
      return [id, this.node(id).table.version >= this.history.length] as const;
    });
    const next = finishHandovers(this.latest, new Map(known));
    if (next === this.latest) return;
    this.#store(next);
    this.#note(`a handover ends, as ${known.filter(([, is]) => is).join(' ')} know`);
  }

  change(): void {
    const instances = this.latest.instances.filter(({ shards }) => shards.length > 0);
    const { id, isolationGroup } = this.some(instances);
    const force = { force: this.random.below(2) === 0 };
    const gone = [...this.nodes.keys()].filter((each) => !this.#has(each));
    const back = this.some(['', ...gone]);
    const candidate = back === '' ? this.#fresh(isolationGroup) : info(back);
    try {
      const kind = this.random.below(4);
      let next: Placement;
      if (kind === 0) next = addInstances(this.latest, [info(id)], force);
      else if (kind === 1) next = removeInstances(this.latest, [id], force);
      else next = replaceInstances(this.latest, [id], [candidate], force);
      this.#store(next);
      this.#note(`${['add back', 'remove', 'replace', 'replace'][kind]} ${id} ${candidate.id}`);
    } catch (error) {
      assert.ok(error instanceof TsdbError, String(error));
    }
  }

  /** A node begins anew, with its rows or, where nobody else lacks any, without. */
  restart(): void {
    const node = this.some([...this.nodes.values()]);
    if (!this.#has(node.id)) return;
    node.table = new ShardTable(node.id);
    const isEmpty = this.random.below(2) === 0 && this.#mayLose(node.id);
    if (isEmpty) {
      node.rows.clear();
      node.isReady = false;
      this.#store(resetInstance(this.latest, node.id));
    }
    node.fetchedAs = null;
    this.adopt(node, this.history.length);
    this.#note(`${node.id} restarts${isEmpty ? ' empty' : ''}`);
  }

  /** The other two replicas are whole, as they know and as the placement says. */
  #mayLose(id: string): boolean {
    const partners = new Set([id]);
    for (const instance of this.latest.instances) {
      const sourceId = instance.shards[0]?.sourceId ?? '';
      if (instance.id === id && sourceId !== '') partners.add(sourceId);
      else if (sourceId === id) partners.add(instance.id);
    }
    return this.latest.instances.every((other) => {
      if (partners.has(other.id) || other.shards.length === 0) return true;
      return other.shards[0]!.state === 'AVAILABLE' && this.node(other.id).isReady;
    });
  }

  #has(id: string): boolean {
    return this.latest.instances.some((instance) => instance.id === id);
  }

  #note(what: string, isCounted = true): void {
    const states = this.latest.instances.map(({ id, shards }) => {
      return `${id} ${shards[0]?.state[0]}${shards[0]?.sourceId}`;
    });
    this.trace.push(`v${this.history.length} [${states.join(', ')}] ${what}`);
    const kinds = [];
    if (isCounted) kinds.push(what.replaceAll(/\b[abc]\d+ /g, '').split(' ')[0]!);
    if (retiredOwners(this.latest).size > 0) kinds.push('steps in step 1');
    for (const kind of kinds) this.counts[kind] = (this.counts[kind] ?? 0) + 1;
  }

  step(): void {
    const age = this.random.below(2) === 0 ? 0 : this.random.below(6);
    const version = Math.max(1, this.history.length - age);
    const nodes = [...this.nodes.values()];
    const kind = this.random.below(40);
    if (kind < 8) this.write(version);
    else if (kind < 16) this.read(version);
    else if (kind < 23) this.stream(this.some(nodes));
    else if (kind < 29) this.mark(this.some(nodes));
    else if (kind < 33) this.finish();
    else if (kind < 35) this.adopt(this.some(nodes), version);
    else if (kind < 39) this.change();
    else this.restart();
  }
}

test('whoever knows however little, each majority of answers has every acknowledged row', () => {
  const counts: Record<string, number> = {};
  const seedFirst = Number(process.env['TSDB_TEST_SEED'] ?? 1) * 1000;
  for (let seed = seedFirst; seed < seedFirst + 1000; seed += 1) {
    const model = new Model(seed);
    for (let step = 0; step < 200; step += 1) model.step();
    for (const [what, count] of Object.entries(model.counts)) {
      counts[what] = (counts[what] ?? 0) + count;
    }
  }
  for (const what of ['write', 'reads', 'stale reads', 'steps in step 1', 'replace', 'restarts']) {
    assert.ok((counts[what] ?? 0) > 500, `too little of ${what}: ${JSON.stringify(counts)}`);
  }
});
