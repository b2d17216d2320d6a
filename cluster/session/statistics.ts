/**
 * Cardinality of a namespace over all its nodes: each shard is asked of one replica, and the
 * answers are joined.
 */
import { BrokenInvariant } from '#lib/assert.ts';
import { distinctCount, mergedSketch } from '#lib/hashing/distinct_sketch.ts';
import { untilAborted } from '#lib/env/wait.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { NodeService, StatisticsCount, StatisticsResponse } from '../node/service.ts';
import type { Ownership } from '../topology/ownership.ts';

/**
 * A node's list is longer than the one that is asked for: what is in the middle of many may be
 * large in all.
 */
const rowsOfNodeFactor = 4;

export interface ClusterStatistics
  extends Omit<StatisticsResponse, 'shards' | 'nameSketch' | 'pairSketch'> {
  /** Instances that were asked. */
  readonly instances: readonly string[];
}

export interface StatisticsPlan {
  readonly ownership: Ownership;
  readonly placementVersion: number;
  readonly nodeOf: (instanceIndex: number) => NodeService;
  readonly namespace: string;
  /** The number that it is known by. */
  readonly namespaceNumber: number;
  /** Most rows of each list. */
  readonly limit: number;
  /** The tag that holds the metric name. */
  readonly metricName: string;
}

/**
 * Counts of series are exact but in the tails of the lists of several nodes; distinct names and
 * values are exact when one node has all shards, and else to some five of a hundred. Bytes are
 * those of the indexes that were asked.
 * @throws {TsdbError} UNAVAILABLE when no replica of some shard answers, naming the reasons;
 * BAD_REQUEST
 */
export async function clusterStatistics(
  plan: StatisticsPlan,
  signal: AbortSignal,
): Promise<ClusterStatistics> {
  const { ownership, limit } = plan;
  const failures = new Map<number, string>();
  for (;;) {
    signal.throwIfAborted();
    const questions = cover(ownership, failures);
    const covered = questions.reduce((sum, { shards }) => sum + shards.length, 0);
    if (covered < ownership.numShards) {
      const reasons = [...failures.values()].join('; ');
      const missing = ownership.numShards - covered;
      throw new TsdbError('UNAVAILABLE', `no replica answers for ${missing} shards: ${reasons}`);
    }
    const isAlone = questions.length === 1;
    const answers = await Promise.all(
      questions.map((question) => ask(plan, question, isAlone, failures, signal)),
    );
    const whole = answers.filter((answer) => answer !== null);
    if (whole.length < answers.length) continue;
    const instances = questions.map(({ instance }) => ownership.instances[instance]!.id);
    return { ...(isAlone ? withoutSketches(whole[0]!) : joined(whole, limit)), instances };
  }
}

interface Question {
  readonly instance: number;
  readonly shards: Uint32Array;
}

/** Few instances that together may be read for all shards, each shard of one of them. */
function cover(ownership: Ownership, failures: ReadonlyMap<number, string>): Question[] {
  const open = new Uint8Array(ownership.numShards).fill(1);
  const questions: Question[] = [];
  for (;;) {
    let best: Question | null = null;
    for (const [instance, readable] of ownership.readableShards.entries()) {
      if (failures.has(instance)) continue;
      const shards = readable.filter((shard) => open[shard] === 1);
      if (shards.length > (best?.shards.length ?? 0)) best = { instance, shards };
    }
    if (best === null) return questions;
    questions.push(best);
    for (const shard of best.shards) open[shard] = 0;
  }
}

/** The answer, or null with its reason among the failures. */
async function ask(
  plan: StatisticsPlan,
  { instance, shards }: Question,
  isAlone: boolean,
  failures: Map<number, string>,
  signal: AbortSignal,
): Promise<StatisticsResponse | null> {
  const { ownership, namespace, namespaceNumber, placementVersion, metricName, limit } = plan;
  const { id } = ownership.instances[instance]!;
  const isAll =
    ownership.readsWhole[instance]! && ownership.readableShards[instance]!.length === shards.length;
  try {
    const node = plan.nodeOf(instance);
    if (node.statistics === undefined) throw new Error('its version gives no statistics');
    const request = {
      namespace,
      namespaceNumber,
      placementVersion,
      shards: isAll ? null : shards,
      limit: isAlone ? limit : limit * rowsOfNodeFactor,
      metricName,
      withSketches: !isAlone,
    };
    const answer = await untilAborted(node.statistics(request, signal), signal);
    const whole = new Set(answer.shards);
    if (shards.every((shard) => whole.has(shard))) return answer;
    failures.set(instance, `${id}: shards are not yet bootstrapped to read`);
  } catch (error) {
    if (error instanceof BrokenInvariant || signal.aborted) throw error;
    if (error instanceof TsdbError && ['BAD_REQUEST', 'NOT_FOUND'].includes(error.code))
      throw error;
    failures.set(instance, `${id}: ${messageOf(error)}`);
  }
  return null;
}

function withoutSketches(answer: StatisticsResponse): Omit<ClusterStatistics, 'instances'> {
  const { shards: _, nameSketch: _names, pairSketch: _pairs, ...rest } = answer;
  return rest;
}

function joined(
  answers: readonly StatisticsResponse[],
  limit: number,
): Omit<ClusterStatistics, 'instances'> {
  const sum = (of: (answer: StatisticsResponse) => number): number =>
    answers.reduce((all, answer) => all + of(answer), 0);
  const added = (of: (answer: StatisticsResponse) => readonly StatisticsCount[]) =>
    joinedRows(answers.map(of), limit, (rows) => rows.reduce((all, { count }) => all + count, 0));
  const held = answers.filter(({ openBlocks }) => openBlocks > 0);
  const nanos = (of: 'startNanos' | 'endNanos'): bigint[] => held.map((answer) => answer[of]);
  const distinct = (sketches: readonly Uint32Array[]): number =>
    distinctCount(mergedSketch(sketches));
  return {
    seriesCount: sum(({ seriesCount }) => seriesCount),
    nameCount: distinct(answers.map(({ nameSketch }) => nameSketch)),
    pairCount: distinct(answers.map(({ pairSketch }) => pairSketch)),
    valuesByName: joinedRows(
      answers.map(({ valuesByName }) => valuesByName),
      limit,
      (rows) => distinct(rows.map(({ sketch }) => sketch)),
    ),
    seriesByName: added(({ seriesByName }) => seriesByName),
    seriesByPair: added(({ seriesByPair }) => seriesByPair),
    seriesByMetric: added(({ seriesByMetric }) => seriesByMetric),
    bytesByName: added(({ bytesByName }) => bytesByName),
    openBlocks: sum(({ openBlocks }) => openBlocks),
    startNanos: nanos('startNanos').reduce((a, b) => (a < b ? a : b), held[0]?.startNanos ?? 0n),
    endNanos: nanos('endNanos').reduce((a, b) => (a > b ? a : b), 0n),
    created: sum(({ created }) => created),
    removed: sum(({ removed }) => removed),
    createdLastHour: sum(({ createdLastHour }) => createdLastHour),
    removedLastHour: sum(({ removedLastHour }) => removedLastHour),
  };
}

/**
 * Rows of one name and value become one; the largest are kept, equal ones in the order of their
 * texts.
 */
function joinedRows(
  lists: readonly (readonly StatisticsCount[])[],
  limit: number,
  countOf: (rows: readonly StatisticsCount[]) => number,
): StatisticsCount[] {
  const groups = new Map<string, StatisticsCount[]>();
  for (const row of lists.flat()) {
    const key = `${row.name}\u0000${row.value}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [row]);
    else group.push(row);
  }
  const rows = [...groups].map(([key, group]) => ({
    key,
    row: { ...group[0]!, count: countOf(group), sketch: none },
  }));
  rows.sort((a, b) => b.row.count - a.row.count || (a.key < b.key ? -1 : 1));
  return rows.slice(0, limit).map(({ row }) => row);
}

const none = new Uint32Array(0);
