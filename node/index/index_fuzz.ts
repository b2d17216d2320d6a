/**
 * Holds the index equal to its obvious twin: a list of series as tag maps, walked for every
 * question.
 */
import assert from 'node:assert/strict';
import type { IndexQuery } from '#lib/index_query.ts';
import { idOfTags } from '#lib/series_id/from_tags.ts';
import { type IdScheme, idSchemeCode } from '#lib/series_id/scheme.ts';
import { encodeTags, sortTags, type Tags } from '#lib/tags.ts';
import { NamespaceIndex } from './namespace_index.ts';
import type { IndexRange } from './query/queries.ts';
import { type IndexSection, type IndexSectionSource, sectionKind } from './saved/section.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { matchesTags, queriedNames, randomQuery, randomTags } from './query_twin.ts';
import type { NamedCount } from './query/statistics.ts';

interface TwinSeries {
  readonly tags: Tags;
  readonly idScheme: number;
  readonly explicitId: string;
  readonly shard: number;
  readonly blocks: Set<bigint>;
}

const blockSizeNanos = 100n;
const schemes: readonly IdScheme[] = ['quoted', 'prepend_meta', 'legacy', 'path'];

class Twin {
  readonly random: SeededRandom;
  index: NamespaceIndex;
  readonly series: Map<number, TwinSeries> = new Map();
  readonly free: number[] = [];
  slotsEnd = 0;

  constructor(seed: number) {
    this.random = new SeededRandom(seed);
    this.index = new NamespaceIndex({ random: this.random, blockSizeNanos });
  }

  identity(): Omit<TwinSeries, 'shard' | 'blocks'> {
    const isExplicit = this.random.below(6) === 0;
    const scheme = this.random.pick(schemes);
    const isPath = !isExplicit && scheme === 'path';
    return {
      tags: isPath ? randomPath(this.random) : randomTags(this.random),
      idScheme: isExplicit ? idSchemeCode.explicit : idSchemeCode[scheme],
      explicitId: isExplicit ? `id-${this.random.below(1000)}` : '',
    };
  }

  insertOne(): void {
    const identity = this.identity();
    const tags = encodeTags(identity.tags);
    const explicitId = Buffer.from(identity.explicitId);
    const found = this.index.find(tags, identity.idScheme, explicitId);
    const wanted = this.findIdentity(identity);
    assert.equal(found, wanted);
    if (found >= 0) return;
    const reused = this.random.below(2) === 0 ? this.free.pop() : undefined;
    const slot = reused ?? this.slotsEnd++;
    const shard = this.random.below(8);
    this.index.insert(slot, tags, identity.idScheme, explicitId, shard);
    this.series.set(slot, { ...identity, shard, blocks: new Set() });
    assert.equal(this.index.find(tags, identity.idScheme, explicitId), slot);
  }

  findIdentity(identity: Omit<TwinSeries, 'shard' | 'blocks'>): number {
    const key = keyOf(identity);
    for (const [slot, series] of this.series) if (keyOf(series) === key) return slot;
    return -1;
  }

  markSome(): void {
    const start = BigInt(this.random.below(5)) * blockSizeNanos;
    const some = [...this.series.keys()].filter(() => this.random.below(3) > 0);
    this.index.markLive(some, start);
    for (const slot of some) this.series.get(slot)!.blocks.add(start);
  }

  expire(): void {
    const before = BigInt(this.random.below(150));
    this.index.expireBlocks(before);
    for (const { blocks } of this.series.values()) {
      for (const start of blocks) if (start + blockSizeNanos <= before) blocks.delete(start);
    }
  }

  removeSome(): void {
    const share = this.random.pick([2, 10, 1000]);
    const removed = [...this.series.keys()].filter(() => this.random.below(share) === 0);
    if (this.random.below(2) === 0) {
      this.index.remove(Uint32Array.from(removed));
      for (const slot of removed) this.series.delete(slot);
    } else {
      this.removeInSteps(removed);
    }
    this.free.push(...removed);
    const dead = [...this.series].filter(([, { blocks }]) => blocks.size === 0);
    assert.deepEqual(
      [...this.index.slotsWithoutBlock()],
      dead.map(([slot]) => slot).sort((a, b) => a - b),
    );
  }

  /**
   * Removes with questions and new series in between; the slots are not given again meanwhile.
   */
  removeInSteps(removed: readonly number[]): void {
    const stepCost = 1 + this.random.below(20);
    let gone = 0;
    for (const _ of this.index.removeInSteps(Uint32Array.from(removed), stepCost)) {
      // The first steps take the series out, as many in each as a step costs.
      const end = Math.min(removed.length, gone + stepCost);
      for (; gone < end; gone++) this.series.delete(removed[gone]!);
      if (this.random.below(4) === 0) this.insertOne();
      if (this.random.below(8) === 0) this.checkQuery();
    }
    for (const slot of removed) this.series.delete(slot);
  }

  /** Goes on with the index as it is after a save and a load, in the middle of which it changes. */
  async saveAndLoad(): Promise<void> {
    const saved = new Map(this.series);
    const limits = {
      bytes: 1 + this.random.below(this.random.pick([50, 2000])),
      rows: 1 + this.random.below(50),
      ordinals: 1 + this.random.below(200),
    };
    const sections: IndexSection[] = [];
    for (const section of this.index.save(limits)) {
      sections.push(section);
      // The summary, which comes last, says which series are saved.
      if (section.kind === sectionKind.summary) break;
      if (this.random.below(20) === 0) this.insertOne();
      if (this.random.below(40) === 0) this.removeSome();
    }
    // A series that is not the same any more was removed, and its slot perhaps given again.
    const kept = [...saved].filter(([slot, series]) => this.series.get(slot) === series);
    kept.sort(([a], [b]) => a - b);
    const slots = this.random.below(2) === 0 ? this.otherSlots(kept.length) : null;
    const options = { random: this.random, blockSizeNanos };
    this.index = await NamespaceIndex.load(sourceOf(sections), options, (found) => {
      assert.equal(found.seriesCount, kept.length);
      for (const [slot] of kept) {
        assert.ok((found.present[slot >>> 5]! & (1 << (slot & 31))) !== 0);
      }
      return slots;
    });
    this.series.clear();
    kept.forEach(([slot, series], i) => this.series.set(slots?.[i] ?? slot, series));
    this.slotsEnd = Math.max(this.slotsEnd, (slots?.at(-1) ?? -1) + 1);
    this.free.length = 0;
    for (let i = 0; i < this.slotsEnd; i++) if (!this.series.has(i)) this.free.push(i);
  }

  otherSlots(count: number): Uint32Array {
    const gap = this.random.pick([1, 1, 5]);
    let slot = this.random.below(3);
    return Uint32Array.from({ length: count }, () => (slot += 1 + this.random.below(gap)));
  }

  checkStatistics(): void {
    const options = { limit: 1 + this.random.below(12), metricName: '__name__' };
    const byPair = new Map<string, number>();
    const byName = new Map<string, number>();
    const values = new Map<string, Set<string>>();
    for (const { tags } of this.series.values()) {
      for (const { name, value } of tags) {
        const pair = JSON.stringify([name, value]);
        byPair.set(pair, (byPair.get(pair) ?? 0) + 1);
        byName.set(name, (byName.get(name) ?? 0) + 1);
        const known = values.get(name);
        if (known === undefined) values.set(name, new Set([value]));
        else known.add(value);
      }
    }
    const statistics = this.index.statistics(options);
    const top = (rows: Iterable<readonly [string, number]>) =>
      [...rows].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).slice(0, options.limit);
    const given = (rows: readonly NamedCount[]) => rows.map(({ name, count }) => [name, count]);
    assert.equal(statistics.seriesCount, this.series.size);
    assert.equal(statistics.nameCount, byName.size);
    assert.equal(statistics.pairCount, byPair.size);
    assert.deepEqual(given(statistics.seriesByName), top(byName));
    const counts = [...values].map(([name, all]) => [name, all.size] as const);
    assert.deepEqual(given(statistics.valuesByName), top(counts));
    const metrics = [...byPair].flatMap(([pair, count]) => {
      const [name, value] = JSON.parse(pair) as [string, string];
      return name === '__name__' ? [[value, count] as const] : [];
    });
    assert.deepEqual(given(statistics.seriesByMetric), top(metrics));
    const topCounts = top(byPair).map(([, count]) => count);
    assert.deepEqual(
      statistics.seriesByPair.map(({ count }) => count),
      topCounts,
    );
    for (const { name, value, count } of statistics.seriesByPair) {
      assert.equal(byPair.get(JSON.stringify([name, value])), count);
    }
    assert.equal(statistics.bytesByName.length, Math.min(options.limit, byName.size));
  }

  checkQuery(): void {
    const query = randomQuery(this.random, 3);
    const start = BigInt(this.random.below(600)) - 50n;
    const range = { startNanos: start, endNanos: start + BigInt(this.random.below(400)) };
    const shards =
      this.random.below(3) === 0
        ? Uint32Array.of(this.random.below(8), this.random.below(8))
        : null;
    const expected = [...this.series]
      .filter(([, series]) => isVisible(series, range, shards) && matchesTags(series.tags, query))
      .map(([slot]) => slot)
      .sort((a, b) => a - b);
    const limit = this.random.below(3) === 0 ? 1 + this.random.below(20) : 0;
    const answer = this.index.query(query, range, { limit, shards });
    const cut = limit > 0 ? expected.slice(0, limit) : expected;
    assert.deepEqual([...answer.slots], cut, JSON.stringify(query));
    assert.equal(answer.exhaustive, cut.length === expected.length);
    this.checkAggregate(query, range, shards, expected);
  }

  checkAggregate(
    query: IndexQuery,
    range: IndexRange,
    shards: Uint32Array | null,
    slots: readonly number[],
  ): void {
    const tagNames = this.random.below(2) === 0 ? [] : [this.random.pick(queriedNames), 'absent'];
    const namesOnly = this.random.below(2) === 0;
    const values = new Map<string, Set<string>>();
    for (const slot of slots) {
      for (const { name, value } of this.series.get(slot)!.tags) {
        if (tagNames.length > 0 && !tagNames.includes(name)) continue;
        const known = values.get(name);
        if (known === undefined) values.set(name, new Set([value]));
        else known.add(value);
      }
    }
    const expected = [...values.keys()].sort(byBytes).map((name) => ({
      name,
      values: namesOnly ? [] : [...values.get(name)!].sort(byBytes),
    }));
    const options = { tagNames, namesOnly, limit: 0, shards };
    const answer = this.index.aggregate(query, range, options);
    assert.deepEqual(answer, { tags: expected, exhaustive: true }, JSON.stringify(query));
    const total = expected.reduce((sum, tag) => sum + 1 + tag.values.length, 0);
    const limit = 1 + this.random.below(30);
    const limited = this.index.aggregate(query, range, { ...options, limit });
    const given = limited.tags.reduce((sum, tag) => sum + 1 + tag.values.length, 0);
    assert.equal(given, Math.min(limit, total));
    assert.equal(limited.exhaustive, limit >= total);
    this.checkJoined(query, range, shards, slots);
  }

  checkJoined(
    query: IndexQuery,
    range: IndexRange,
    shards: Uint32Array | null,
    slots: readonly number[],
  ): void {
    const names = this.random.below(2) === 0 ? queriedNames : ['__g0__', '__g1__', '__g10__'];
    const tagNames = Array.from({ length: 1 + this.random.below(3) }, () =>
      this.random.pick(names),
    );
    const joined = new Set<string>();
    for (const slot of slots) {
      const { tags } = this.series.get(slot)!;
      const values = tagNames.map((name) => tags.find((tag) => tag.name === name)?.value ?? '');
      if (values.every((value) => value !== '' && !value.includes('.'))) {
        joined.add(values.join('.'));
      }
    }
    const values = [...joined].sort(byBytes);
    const options = { tagNames, namesOnly: false, joined: true, limit: 0, shards };
    const tags = values.length === 0 ? [] : [{ name: tagNames.join('.'), values }];
    const answer = this.index.aggregate(query, range, options);
    assert.deepEqual(answer, { tags, exhaustive: true }, JSON.stringify({ query, tagNames }));
    const limit = 2 + this.random.below(10);
    const limited = this.index.aggregate(query, range, { ...options, limit });
    const found = limited.tags[0]?.values ?? [];
    assert.ok(found.length === Math.min(limit - 1, values.length) || !limited.exhaustive);
    assert.ok(found.every((text) => joined.has(text)));
    assert.equal(limited.exhaustive, limit > values.length);
  }

  checkSeries(): void {
    const slots = Uint32Array.from(this.series.keys());
    const bundle = this.index.tagsOf(slots);
    for (let i = 0; i < slots.length; i++) {
      const slot = slots[i]!;
      const series = this.series.get(slot)!;
      const tags = encodeTags(series.tags);
      assert.deepEqual(Buffer.from(this.index.tags(slot)), Buffer.from(tags));
      const slice = bundle.tagsData.subarray(bundle.tagsOffset[i], bundle.tagsOffset[i + 1]);
      assert.deepEqual(Buffer.from(slice), Buffer.from(tags));
      const id = bundle.idData.subarray(bundle.idOffset[i], bundle.idOffset[i + 1]);
      assert.equal(Buffer.from(id).toString(), series.explicitId);
      assert.equal(this.index.shard(slot), series.shard);
      assert.equal(bundle.idScheme[i], series.idScheme);
      assert.equal(Buffer.from(this.index.id(slot)).toString(), idOf(series));
      const byId = this.index.findById(Buffer.from(idOf(series)));
      assert.equal(idOf(this.series.get(byId)!), idOf(series));
    }
    assert.equal(this.index.seriesCount, this.series.size);
    assert.equal(this.index.findById(Buffer.from('nobody')), -1);
  }
}

export function sourceOf(sections: readonly IndexSection[]): IndexSectionSource {
  return {
    kinds: sections.map(({ kind }) => kind),
    read: (section) => Promise.resolve(sections[section]!.bytes.slice()),
  };
}

/** Tags of a path of some nodes, sorted. */
function randomPath(random: SeededRandom): Tags {
  const nodes = Array.from({ length: 1 + random.below(12) }, () => `n${random.below(4)}`);
  return sortTags(nodes.map((value, node) => ({ name: `__g${node}__`, value })));
}

function keyOf(series: Omit<TwinSeries, 'shard' | 'blocks'>): string {
  return JSON.stringify([series.tags, series.idScheme, series.explicitId]);
}

function idOf(series: TwinSeries): string {
  if (series.explicitId !== '') return series.explicitId;
  return idOfTags(series.tags, schemes.find((name) => idSchemeCode[name] === series.idScheme)!);
}

function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

function isVisible(series: TwinSeries, range: IndexRange, shards: Uint32Array | null): boolean {
  if (shards !== null && !shards.includes(series.shard)) return false;
  if (range.endNanos <= range.startNanos) return false;
  return [...series.blocks].some(
    (start) => start < range.endNanos && start + blockSizeNanos > range.startNanos,
  );
}

/** @param size about the number of series inserted */
export async function fuzz(seed: number, size: number): Promise<void> {
  const twin = new Twin(seed);
  let inserted = 0;
  while (inserted < size) {
    const count = 1 + twin.random.below(Math.ceil(size / 5));
    for (let i = 0; i < count; i++) twin.insertOne();
    inserted += count;
    for (let i = 0; i < 2; i++) twin.markSome();
    for (let i = 0; i < 20; i++) twin.checkQuery();
    if (twin.random.below(2) === 0) twin.expire();
    if (twin.random.below(2) === 0) await twin.saveAndLoad();
    twin.removeSome();
    twin.checkStatistics();
    for (let i = 0; i < 20; i++) twin.checkQuery();
    twin.checkSeries();
  }
}
