/**
 * What the session itself costs a row: copy, references and batch, beside nodes that do nothing.
 */
import { bootstrappedFrom } from '../placement/placement_testing.ts';
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { encodeTags } from '#lib/tags.ts';
import type { NodeService } from '../node/service.ts';
import { Ownership } from '../topology/ownership.ts';
import { initPlacement, markShardsAvailable } from '../placement/algorithm.ts';
import { Session, type SeriesTable, type SessionRows } from './session.ts';
import { emptyView, type TopologyView } from '../topology/topology.ts';
import { readBatch } from '#engine/batch/batch.ts';
import { addNamespace } from '../namespaces/changes.ts';
import { emptyRegistry } from '../namespaces/namespaces.ts';
import { namespaceOptionsOf } from '../namespaces/request.ts';
import { Fields } from '../fields.ts';

export async function bench(size: BenchSize): Promise<BenchResult[]> {
  const rowCount = size === 'small' ? 1_000 : 10_000;
  const rounds = size === 'small' ? 3 : 300;
  const results: BenchResult[] = [];
  const cases = [
    ['one node', 1, 1],
    ['three nodes, factor 3', 1, 3],
    ['six nodes, factor 3', 2, 3],
  ] as const;
  for (const [name, perGroup, groups] of cases) {
    const nanos = await nanosPerRow(viewOf(perGroup, groups), rowCount, rounds);
    results.push({ name: `cluster/session: write, ${name}`, unit: 'ns/row', value: nanos });
  }
  return results;
}

async function nanosPerRow(view: TopologyView, rowCount: number, rounds: number): Promise<number> {
  const seriesCount = 100_000;
  const series = tableOf(seriesCount);
  const nodes = new Map<string, NodeService>();
  for (const { id } of view.placement!.instances) nodes.set(id, idleNode());
  const session = new Session({
    topology: { view, refresh: () => Promise.resolve(view) },
    nodeOf: ({ id }) => nodes.get(id)!,
    env: realEnv,
    log: silentLog,
  });
  const { signal } = new AbortController();
  const batches: SessionRows[] = [];
  for (let first = 0; first < seriesCount; first += rowCount) {
    batches.push({
      rowCount,
      slots: Uint32Array.from({ length: rowCount }, (_, i) => first + i),
      generations: series.generation.subarray(first, first + rowCount),
      mayBeRefused: false,
      timestamps: BigInt64Array.from(
        { length: rowCount },
        (_, i) => 1_700_000_000_000n + BigInt(i),
      ),
      timeUnitNanos: 1_000_000,
      values: Float64Array.from({ length: rowCount }, (_, i) => i * 0.25),
    });
  }
  for (const rows of batches) await session.write('ns', rows, series, signal);
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds; round++) {
    const start = realEnv.clock.monotonicMillis();
    await session.write('ns', batches[round % batches.length]!, series, signal);
    best = Math.min(best, realEnv.clock.monotonicMillis() - start);
  }
  return (best * 1e6) / rowCount;
}

function viewOf(perGroup: number, groups: number): TopologyView {
  const instances = Array.from({ length: perGroup * groups }, (_, i) => ({
    id: `i${i}`,
    isolationGroup: `g${i % groups}`,
    zone: 'embedded',
    weight: 1,
    endpoint: `i${i}:9000`,
    hostname: `i${i}`,
    port: 9000,
    shardSetId: 0,
    debugPort: 0,
  }));
  let placement = initPlacement(instances, { numShards: 64, replicaFactor: groups });
  const ready = new Map(Array.from({ length: 64 }, (_, shard) => [shard, '']));
  for (const { id } of instances)
    placement = markShardsAvailable(placement, id, bootstrappedFrom(ready));
  const hours = { retentionPeriodDuration: '48h', blockSizeDuration: '2h' };
  const options = namespaceOptionsOf(Fields.of({ retentionOptions: hours }, 'options'));
  return {
    ...emptyView,
    isLoaded: true,
    placement,
    placementVersion: 1,
    ownership: new Ownership(placement),
    namespaces: addNamespace(emptyRegistry, { name: 'ns', options }),
  };
}

function tableOf(seriesCount: number): SeriesTable {
  return {
    idHash: Uint32Array.from({ length: seriesCount }, (_, i) => Math.imul(i, 0x9e3779b1) >>> 0),
    generation: new Uint32Array(seriesCount).fill(1),
    refused: new Uint8Array(seriesCount),
    problem: () => '',
    tags: (slot) => encodeTags([{ name: '__name__', value: `m${slot}` }]),
    idScheme: () => 1,
    explicitId: () => new Uint8Array(0),
  };
}

/** Gives references in order and writes nothing. */
function idleNode(): NodeService {
  let given = 0;
  const unused = () => Promise.reject(new Error('not part of this benchmark'));
  return {
    write({ batch, referenceEpoch }) {
      const seriesCount = referenceEpoch === '' ? readBatch(batch).seriesCount : 0;
      const references = new Uint32Array(2 * seriesCount);
      for (let i = 0; i < seriesCount; i++) references.set([given++, 1], 2 * i);
      return Promise.resolve({
        referenceEpoch: 'boot',
        outcomes: new Uint8Array(0),
        references,
        highestVersion: 0,
      });
    },
    fetch: unused,
    fetchById: unused,
    aggregate: unused,
    truncate: unused,
    streamShard: async function* () {},
    health: unused,
  };
}
