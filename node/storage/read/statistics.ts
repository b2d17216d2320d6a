/** Cardinality of a namespace on this node, for the node contract. */
import type {
  StatisticsCount,
  StatisticsRequest,
  StatisticsResponse,
} from '#cluster/node/service.ts';
import type { SampleStore } from '#engine/store/sample_store.ts';
import { badRequest } from '#lib/errors.ts';
import type { Work } from '#lib/turns/turns.ts';
import type { NamedCount } from '../../index/query/statistics.ts';
import type { NamespaceState } from '../namespace/namespace.ts';

/** Most rows of each list of an answer about cardinality. */
const statisticsRowsMax = 4_000;

const none = new Uint32Array(0);

/**
 * @param whole shards for which this node's answer is whole
 * @param work gives way to others
 * @throws {TsdbError} BAD_REQUEST when the limit is too large
 */
export async function statisticsResponse(
  namespace: NamespaceState,
  store: SampleStore,
  request: StatisticsRequest,
  whole: Uint32Array,
  work: Work,
): Promise<StatisticsResponse> {
  const { limit, metricName, shards, withSketches } = request;
  if (limit > statisticsRowsMax) {
    throw badRequest(`limit: must be at most ${statisticsRowsMax}: ${limit}`);
  }
  const { index } = namespace;
  const found = await index.statisticsInTurns({ limit, metricName, shards, withSketches }, work);
  const { sketches } = found;
  const rowsOf = (rows: readonly (NamedCount & { readonly value?: string })[]) =>
    rows.map(({ name, value = '', count }): StatisticsCount => {
      return { name, value, count, sketch: none };
    });
  const blocks = store.blocks(namespace.ordinal);
  const first = blocks.reduce<bigint | null>(
    (least, { blockStartNanos: start }) => (least === null || start < least ? start : least),
    null,
  );
  const last = blocks.reduce(
    (most, { blockStartNanos: start }) => (start > most ? start : most),
    first ?? 0n,
  );
  // Memory is not kept by shard: of some shards it is their part of the series.
  const share = index.seriesCount === 0 ? 0 : found.seriesCount / index.seriesCount;
  const pairs = blocks.reduce((sum, { seriesCount }) => sum + seriesCount, 0);
  const churn = index.churn(work.clock.monotonicMillis());
  return {
    seriesCount: found.seriesCount,
    nameCount: found.nameCount,
    pairCount: found.pairCount,
    valuesByName: rowsOf(found.valuesByName).map((row) => {
      return { ...row, sketch: sketches?.values.get(row.name) ?? none };
    }),
    seriesByName: rowsOf(found.seriesByName),
    seriesByPair: rowsOf(found.seriesByPair),
    seriesByMetric: rowsOf(found.seriesByMetric),
    bytesByName: rowsOf(found.bytesByName),
    nameSketch: sketches?.names ?? none,
    pairSketch: sketches?.pairs ?? none,
    openBlocks: Math.round(pairs * share),
    startNanos: first ?? 0n,
    endNanos: first === null ? 0n : last + namespace.blockSizeNanos,
    created: Math.round(churn.created * share),
    removed: Math.round(churn.removed * share),
    createdLastHour: Math.round(churn.createdLastHour * share),
    removedLastHour: Math.round(churn.removedLastHour * share),
    shards: whole,
  };
}
