/** Rollups of several aggregators that share them, with kills, changes of the placement, and a store of marks that is away. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Outputs } from '../aggregation_rules/rollups/outputs.ts';
import { MemoryKvStore } from '../kv/memory.ts';
import {
  addMirrored,
  initMirrored,
  removeMirrored,
  replaceMirrored,
} from '../placement/mirrored.ts';
import type { InstanceInfo, Placement } from '../placement/placement.ts';
import type { Clock } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { RollupMarks } from './marks.ts';
import { latenessNanos } from './parts/lateness.ts';
import { PartsMaker, type PartsView } from './parts/maker.ts';
import type { PartsService } from './parts/service.ts';
import { SharedParts } from './parts/shared.ts';
import {
  decodePartsPage,
  decodePartsRequest,
  encodePartsRequest,
  partsPages,
} from './parts/wire.ts';
import { PolicyRollups } from './policy_rollups.ts';
import {
  advanceAll,
  assertFinal,
  bufferPastNanos,
  fill,
  log,
  MemoryRollups,
  minute,
  numStorageShards,
  policy,
  random,
  second,
  sets,
  start,
} from './policy_rollups_testing.ts';
import { type RollupShare, shareOfInstance } from './share.ts';

const never = new AbortController().signal;
const cluster = { environment: 'test', zone: 'embedded' };

const view = {
  isLoaded: true,
  awaitsApproval: false,
  lineageId: 'store',
  namespacesRevision: 3,
  placement: { numShards: numStorageShards },
} as unknown as PartsView;

interface TestAggregator {
  readonly maker: PartsMaker;
  /** Not before this time is it there. */
  upNanos: bigint;
}

/** Who leads a shard set. */
interface Leader {
  readonly id: string;
  readonly share: RollupShare;
  readonly rollups: PolicyRollups;
}

class Aggregators {
  readonly storage = new MemoryRollups();
  readonly #kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  readonly #marks = new RollupMarks(this.#kv, cluster);
  /** How far clocks are ahead. */
  readonly aheadNanos = new Map<string, bigint>();
  readonly #aggregators = new Map<string, TestAggregator>();
  readonly leaders = new Map<number, Leader>();
  placement: Placement = initMirrored(['a', 'b', 'c', 'd', 'e', 'f'].map(infoOf), {
    numShards: 8,
    replicaFactor: 2,
  });
  /** Stands for the revision of its key. */
  #revision = 1;
  nowNanos = 0n;
  /** Not before this time marks can be written. */
  marksNanos = 0n;
  readings = 0;
  readonly warnings: string[] = [];
  counts = { kills: 0, changes: 0 };

  change(next: Placement): void {
    this.placement = next;
    this.#revision += 1;
    this.counts.changes += 1;
  }

  async step(): Promise<void> {
    this.storage.nowNanos = this.nowNanos;
    const sets_ = [...Map.groupBy(this.placement.instances, ({ shardSetId }) => shardSetId)];
    for (const id of this.leaders.keys()) {
      if (!sets_.some(([set]) => set === id)) this.leaders.delete(id);
    }
    await Promise.all(
      sets_.map(async ([set, members]) => {
        const up = members.filter(({ id }) => this.#isUp(id));
        const leader = this.#leaderOf(
          set,
          up.map(({ id }) => id),
        );
        if (leader !== null) await this.#advance(leader);
      }),
    );
  }

  #leaderOf(set: number, up: readonly string[]): Leader | null {
    const known = this.leaders.get(set);
    const isSame =
      known !== undefined && up.includes(known.id) && known.share.holds.equals === this.#revision;
    if (isSame) return known;
    if (up.length === 0) return null;
    const id = up[random(up.length)]!;
    const share = shareOfInstance(
      cluster,
      { placement: this.placement, modRevision: this.#revision },
      id,
    );
    if (share === null) return null;
    const parts = new SharedParts({
      policy,
      id,
      placement: this.placement,
      shards: share.shards,
      topology: { view },
      own: this.#aggregatorOf(id).maker,
      peerOf: (instance, outputs) => this.#peerOf(instance.id, outputs),
      clock: this.#clockOf(id),
      log: { ...log, warn: (fields) => this.warnings.push(JSON.stringify(fields)) } as Log,
    });
    const { storage } = this;
    const rollups = new PolicyRollups(
      policy,
      parts,
      {
        write: (rows) => storage.write(rows),
        eachStored: (...args) => storage.eachStored(...args),
        finalEnd: (signal) => this.#marks.read(policy, share, signal),
        noteFinalEnd: async (endNanos, signal) => {
          if (this.nowNanos < this.marksNanos) throw new TsdbError('UNAVAILABLE', 'no store');
          const anyones = { ...share, holds: { ...share.holds, equals: 0 } as never };
          await this.#marks.write(policy, endNanos, { share: anyones, createRevision: 0 }, signal);
          storage.beginNanos ??= endNanos;
        },
      },
      this.#clockOf(id),
      log,
    );
    const leader = { id, share, rollups };
    this.leaders.set(set, leader);
    return leader;
  }

  #clockOf(id: string): Clock {
    const nowNanos = (): bigint => this.nowNanos + (this.aheadNanos.get(id) ?? 0n);
    return { ...realEnv.clock, nowNanos };
  }

  #advance({ id, rollups }: Leader): Promise<void> {
    return advanceAll(rollups, this.#clockOf(id).nowNanos());
  }

  #isUp(id: string): boolean {
    return this.#aggregatorOf(id).upNanos <= this.nowNanos;
  }

  #aggregatorOf(id: string): TestAggregator {
    let aggregator = this.#aggregators.get(id);
    if (aggregator === undefined) {
      aggregator = { maker: this.#makerOf(id), upNanos: 0n };
      this.#aggregators.set(id, aggregator);
    }
    return aggregator;
  }

  #makerOf(id: string): PartsMaker {
    const clock = this.#clockOf(id);
    const known = () => ({ sets, knownNanos: clock.nowNanos() - 25n * second });
    return new PartsMaker({
      random: realEnv.random,
      rows: {
        each: (...args) => {
          this.readings += 1;
          return this.storage.each(...args);
        },
      },
      rules: {
        get known() {
          return known();
        },
      },
      topology: { view },
      clock,
      stop: never,
      bufferPastNanos: () => bufferPastNanos,
    });
  }

  /** Over the wire. */
  #peerOf(id: string, outputs: Outputs): PartsService {
    return {
      parts: async (request, signal) => {
        if (!this.#isUp(id)) throw new TsdbError('UNAVAILABLE', 'connection refused');
        const asked = decodePartsRequest(encodePartsRequest(request));
        const found = await this.#aggregatorOf(id).maker.parts(asked, signal);
        const pages = [...partsPages(found)].map((page) => decodePartsPage(page, outputs));
        assert.ok(pages.at(-1)!.isLast);
        return pages.flatMap((page) => page.outputs);
      },
    };
  }

  /** It is gone with all that it knew, and somebody starts it anew. */
  kill(id: string, awayNanos: bigint): void {
    this.counts.kills += 1;
    this.#aggregators.set(id, { maker: this.#makerOf(id), upNanos: this.nowNanos + awayNanos });
  }

  /** Up to where all are final. */
  async finalEnd(): Promise<bigint> {
    const ends = await Promise.all(
      this.leaders.values().map(({ share }) => this.#marks.read(policy, share, never)),
    );
    return ends.reduce((a, b) => (b! < a! ? b : a))!;
  }
}

function infoOf(id: string): InstanceInfo {
  return {
    id,
    isolationGroup: id,
    zone: 'embedded',
    weight: 1,
    endpoint: `${id}:6000`,
    hostname: id,
    port: 6000,
    shardSetId: 0,
    debugPort: 0,
  };
}

async function play(
  aggregators: Aggregators,
  minutes: number,
  act: (step: number) => void,
): Promise<void> {
  const firstNanos = start + bufferPastNanos + latenessNanos(minute);
  const steps = minutes * 3;
  for (let step = 0; step <= steps; step++) {
    aggregators.nowNanos = firstNanos + BigInt(step) * 20n * second;
    act(step);
    await aggregators.step();
  }
}

test('several aggregators make what one would, and read all rows once', async () => {
  const aggregators = new Aggregators();
  fill(aggregators.storage, 60, 6);
  let before = 0;
  await play(aggregators, 50, (step) => {
    if (step === 30) before = aggregators.readings;
  });
  assertFinal(aggregators.storage, await aggregators.finalEnd());
  assert.deepEqual(aggregators.warnings, []);
  const passes = (aggregators.readings - before) / 3;
  // 40 windows, each made when it ends and when it is final, several of the latter at once.
  assert.ok(passes > 40 && passes < 60, `${passes} readings of all rows`);
});

test('aggregators die and the placement changes: each window comes to the same', async () => {
  const sum = { kills: 0, changes: 0 };
  for (let round = 0; round < 12; round++) {
    const aggregators = new Aggregators();
    fill(aggregators.storage, 100, round % 2 === 0 ? 8 : 0);
    let named = 0;
    await play(aggregators, 90, (step) => {
      if (step > 90 * 3 - 45) {
        aggregators.storage.failsOneIn = 0;
        return;
      }
      aggregators.storage.failsOneIn = 40;
      const { leaders, placement, nowNanos } = aggregators;
      if (random(12) === 0) {
        const ids = [...leaders.values()].map(({ id }) => id);
        const id = ids[random(ids.length)];
        if (id !== undefined) aggregators.kill(id, BigInt(random(200)) * second);
      }
      if (random(60) === 0) aggregators.marksNanos = nowNanos + minute;
      if (random(25) > 0) return;
      const sizes = new Set(placement.instances.map(({ shardSetId }) => shardSetId));
      const [first] = placement.instances;
      const set = placement.instances.filter(({ shardSetId }) => shardSetId === first!.shardSetId);
      const what = random(3);
      named += 1;
      if (what === 0 && sizes.size > 1) {
        aggregators.change(
          removeMirrored(
            placement,
            set.map(({ id }) => id),
          ),
        );
      } else if (what === 1) {
        aggregators.change(replaceMirrored(placement, [first!.id], [infoOf(`r${named}`)]));
      } else {
        const ids = [`x${named}`, `y${named}`];
        aggregators.change(addMirrored(placement, ids.map(infoOf)));
        // They come later than their place.
        const awaySeconds = BigInt(random(step < 90 ? 1_500 : 600));
        for (const id of ids) aggregators.kill(id, awaySeconds * second);
      }
    });
    const finalEnd = await aggregators.finalEnd();
    assert.ok(finalEnd >= start + 70n * minute, `${(finalEnd - start) / minute} minutes`);
    assertFinal(aggregators.storage, finalEnd);
    sum.kills += aggregators.counts.kills;
    sum.changes += aggregators.counts.changes;
  }
  assert.ok(sum.kills > 100 && sum.changes > 60, JSON.stringify(sum));
});

test('a leader whose clock is ahead makes nothing final that others say is not due', async () => {
  const aggregators = new Aggregators();
  fill(aggregators.storage, 100, 8);
  let refused = 0;
  await play(aggregators, 90, (step) => {
    const { leaders, aheadNanos } = aggregators;
    const id = leaders.get(1)?.id;
    if (step === 60 && id !== undefined) aheadNanos.set(id, 30n * minute);
    if (step === 150) aheadNanos.clear();
    if (step > 60 && step < 150) refused += 1;
  });
  assert.ok(refused > 80);
  const finalEnd = await aggregators.finalEnd();
  assert.ok(finalEnd >= start + 80n * minute, `${(finalEnd - start) / minute} minutes`);
  assertFinal(aggregators.storage, finalEnd);
});

test('who knows of another storage, or of less of it, gives no parts', async () => {
  const rows = new MemoryRollups();
  fill(rows, 10, 0);
  const nowNanos = start + 30n * minute;
  const maker = (its: object): PartsMaker =>
    new PartsMaker({
      random: realEnv.random,
      rows,
      rules: { known: { sets, knownNanos: nowNanos } },
      topology: { view: { ...view, ...its } },
      clock: { ...realEnv.clock, nowNanos: () => nowNanos },
      stop: never,
      bufferPastNanos: () => bufferPastNanos,
    });
  const windows = { resolutionNanos: minute, firstEndNanos: start + minute, windowCount: 3 };
  const storageShards = Array.from({ length: numStorageShards }, (_, shard) => shard);
  const request = {
    ...{ policy, windows, isFinal: true, storageShards, numShards: 1, shards: [0] },
    ...{ storeLineage: 'store', namespacesRevision: 3, numStorageShards },
  };
  rows.nowNanos = nowNanos;
  assert.ok((await maker({}).parts(request, never)).length > 0);
  const late = { ...request, windows: { ...windows, firstEndNanos: start + 29n * minute } };
  await assert.rejects(maker({}).parts(late, never), { code: 'FAILED_PRECONDITION' });
  for (const [its, code] of [
    [{ lineageId: 'other' }, 'BAD_REQUEST'],
    [{ placement: { numShards: 3 } }, 'BAD_REQUEST'],
    [{ namespacesRevision: 2 }, 'UNAVAILABLE'],
    [{ awaitsApproval: true }, 'UNAVAILABLE'],
    [{ placement: null }, 'UNAVAILABLE'],
  ] as const) {
    await assert.rejects(maker(its).parts(request, never), { code }, JSON.stringify(its));
  }
});

test('a reading goes on when whoever asked for it gives up', async () => {
  const rows = new MemoryRollups();
  fill(rows, 10, 0);
  const nowNanos = start + 30n * minute;
  rows.nowNanos = nowNanos;
  let readings = 0;
  const begun = Promise.withResolvers<void>();
  const goes = Promise.withResolvers<void>();
  const maker = new PartsMaker({
    random: realEnv.random,
    rows: {
      each: async (...args) => {
        readings += 1;
        begun.resolve();
        await goes.promise;
        return rows.each(...args);
      },
    },
    rules: { known: { sets, knownNanos: nowNanos } },
    topology: { view },
    clock: { ...realEnv.clock, nowNanos: () => nowNanos },
    stop: never,
    bufferPastNanos: () => bufferPastNanos,
  });
  const request = {
    ...{ policy, isFinal: true, storageShards: [0], numShards: 1, shards: [0] },
    ...{ storeLineage: 'store', namespacesRevision: 3, numStorageShards },
    windows: { resolutionNanos: minute, firstEndNanos: start + minute, windowCount: 3 },
  };
  const gives = new AbortController();
  const first = maker.parts(request, gives.signal);
  await begun.promise;
  gives.abort(new TsdbError('CANCELLED', 'enough'));
  await assert.rejects(first, { code: 'CANCELLED' });
  const second = maker.parts(request, never);
  goes.resolve();
  await second;
  assert.equal(readings, 1);
});

test('windows that have begun since rules were read are given while no change of them can hold', async () => {
  const rows = new MemoryRollups();
  fill(rows, 10, 0);
  const readNanos = start + 3n * minute;
  const makerAt = (nowNanos: bigint): PartsMaker =>
    new PartsMaker({
      random: realEnv.random,
      rows,
      rules: { known: { sets, knownNanos: readNanos } },
      topology: { view },
      clock: { ...realEnv.clock, nowNanos: () => nowNanos },
      stop: never,
      bufferPastNanos: () => bufferPastNanos,
    });
  const tens = { ...policy, resolutionNanos: 10n * second };
  const requestOf = (beginNanos: bigint): Parameters<PartsMaker['parts']>[0] => ({
    ...{ policy: tens, isFinal: false, storageShards: [0], numShards: 1, shards: [0] },
    ...{ storeLineage: 'store', namespacesRevision: 3, numStorageShards },
    windows: {
      resolutionNanos: tens.resolutionNanos,
      firstEndNanos: beginNanos + tens.resolutionNanos,
      windowCount: 1,
    },
  });
  // They are read every half minute, and such a window is due 25 s after it has begun.
  const begunSince = requestOf(readNanos + 20n * second);
  await makerAt(readNanos + minute).parts(begunSince, never);
  const tooLate = requestOf(readNanos + 40n * second);
  const failing = makerAt(readNanos + 2n * minute).parts(tooLate, never);
  await assert.rejects(failing, { code: 'UNAVAILABLE' });
});
