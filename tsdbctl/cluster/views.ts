/** What a coordinator tells of its cluster, as tables. */
import type { HealthReport } from '#cluster/admin/instance_health.ts';
import { formatDurationNanos, parseDurationNanos } from '#lib/time.ts';
import { tableText } from '../table.ts';

export interface ShardJson {
  readonly id: number;
  readonly state: string;
  readonly sourceId: string;
}

export interface InstanceJson {
  readonly id: string;
  readonly isolationGroup: string;
  readonly zone: string;
  readonly weight: number;
  readonly endpoint: string;
  readonly shards: readonly ShardJson[];
  readonly shardSetId: number;
}

export interface PlacementAnswer {
  readonly placement: {
    readonly instances: Readonly<Record<string, InstanceJson>>;
    readonly replicaFactor: number;
    readonly numShards: number;
    readonly isMirrored: boolean;
  };
  readonly version: number;
  readonly awaitsApproval?: boolean;
}

const states = ['AVAILABLE', 'INITIALIZING', 'LEAVING'] as const;

export function placementTable({ placement, version, awaitsApproval }: PlacementAnswer): string {
  const rows = instancesOf(placement).map((instance) => [
    instance.id,
    instance.isolationGroup,
    instance.endpoint,
    instance.weight,
    ...(placement.isMirrored ? [instance.shardSetId] : []),
    ...states.map((state) => instance.shards.filter((shard) => shard.state === state).length),
  ]);
  const names = [
    'id',
    'group',
    'endpoint',
    'weight',
    ...(placement.isMirrored ? ['shard set'] : []),
    ...states,
  ];
  const approval = awaitsApproval === true ? '; it awaits "tsdbctl placement approve"' : '';
  return `${placement.numShards} shards, ${placement.replicaFactor} replicas, version ${version}${approval}\n${tableText(names, rows)}`;
}

/** Who has which shards. */
export function topologyTable({ placement }: PlacementAnswer): string {
  const rows = instancesOf(placement).flatMap(({ id, isolationGroup, shards }) =>
    states.flatMap((state) => {
      const of = shards.filter((shard) => shard.state === state);
      return of.length === 0
        ? []
        : [[id, isolationGroup, state, rangesText(of.map((shard) => shard.id))]];
    }),
  );
  return tableText(['id', 'group', 'state', 'shards'], rows);
}

/** `0-3, 7` */
export function rangesText(numbers: readonly number[]): string {
  const ranges: [first: number, last: number][] = [];
  for (const number of numbers.toSorted((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last !== undefined && number === last[1] + 1) last[1] = number;
    else ranges.push([number, number]);
  }
  return ranges
    .map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`))
    .join(', ');
}

const instancesOf = ({ instances }: PlacementAnswer['placement']): InstanceJson[] =>
  Object.values(instances).sort((a, b) => (a.id < b.id ? -1 : 1));

interface NamespaceJson {
  readonly retentionOptions: {
    readonly retentionPeriodDuration: string;
    readonly blockSizeDuration: string;
    readonly bufferPastDuration: string;
  };
  readonly coldWritesEnabled: boolean;
  readonly repairEnabled: boolean;
  readonly stagingState: { readonly status: string } | null;
  readonly schemaOptions: object | null;
  readonly aggregationOptions: {
    readonly aggregations: readonly {
      readonly aggregated: boolean;
      readonly attributes: { readonly resolutionDuration?: string } | null;
    }[];
  } | null;
}

export interface RegistryAnswer {
  readonly registry: { readonly namespaces: Readonly<Record<string, NamespaceJson>> };
}

/** @param answer of `?debug=true`, with durations as texts */
export function namespacesTable({ registry }: RegistryAnswer): string {
  const rows = Object.entries(registry.namespaces).map(([name, options]) => {
    const { retentionPeriodDuration, blockSizeDuration, bufferPastDuration } =
      options.retentionOptions;
    const resolutions = (options.aggregationOptions?.aggregations ?? []).flatMap(
      ({ aggregated, attributes }) => (aggregated ? [attributes?.resolutionDuration ?? '?'] : []),
    );
    const holds =
      resolutions.length > 0
        ? `windows of ${resolutions.map(shortDuration).join(', ')}`
        : options.schemaOptions === null
          ? 'samples'
          : 'messages';
    return [
      name,
      options.stagingState?.status ?? 'UNKNOWN',
      holds,
      ...[retentionPeriodDuration, blockSizeDuration, bufferPastDuration].map(shortDuration),
      options.coldWritesEnabled ? 'on' : 'off',
      options.repairEnabled ? 'on' : 'off',
    ];
  });
  const names = [
    'name',
    'state',
    'holds',
    'retention',
    'block',
    'buffer past',
    'cold writes',
    'repair',
  ];
  return tableText(names, rows);
}

/** `48h0m0s` as `48h`. */
function shortDuration(text: string): string {
  const nanos = parseDurationNanos(text, 'duration');
  return formatDurationNanos(nanos).replace(/(?<=\d[hm])(?:0[ms])+$/, '');
}

/** Exit codes tell whether all is well. */
export interface StatusText {
  readonly text: string;
  readonly isWell: boolean;
}

/** The cluster at a glance. */
export function statusText(
  placement: PlacementAnswer | null,
  healths: HealthReport['instances'],
  registry: RegistryAnswer,
): StatusText {
  if (placement === null) return { text: 'there is no placement yet', isWell: false };
  const problems: string[] = [];
  const rows = instancesOf(placement.placement).map(({ id, isolationGroup, endpoint, shards }) => {
    const health = healths[id] ?? { error: 'it is not asked' };
    const moving = shards.filter(({ state }) => state !== 'AVAILABLE').length;
    if (moving > 0) problems.push(`${id}: ${moving} shards are on their way`);
    if ('error' in health) {
      problems.push(`${id}: ${health.error}`);
      return [id, isolationGroup, endpoint, 'no', '-', shards.length, '-', '-'];
    }
    const { bootstrapped, bootCount, blocksLacking, blocksLost, writesRefused } = health;
    if (!bootstrapped) problems.push(`${id}: it has not loaded its shards yet`);
    if (writesRefused !== '') problems.push(`${id}: it refuses writes: ${writesRefused}`);
    if (blocksLacking > 0) problems.push(`${id}: ${blocksLacking} blocks may lack rows`);
    if (blocksLost > 0) problems.push(`${id}: rows of ${blocksLost} blocks are lost`);
    const isUp = bootstrapped ? 'yes' : 'loads';
    return [
      id,
      isolationGroup,
      endpoint,
      isUp,
      bootCount,
      shards.length,
      blocksLacking,
      blocksLost,
    ];
  });
  const names = ['id', 'group', 'endpoint', 'up', 'starts', 'shards', 'in doubt', 'lost'];
  const namespaces = Object.entries(registry.registry.namespaces);
  const notReady = namespaces.filter(([, { stagingState }]) => stagingState?.status !== 'READY');
  for (const [name] of notReady) problems.push(`namespace ${name} is not READY`);
  if (namespaces.length === 0) problems.push('there is no namespace yet');
  if (placement.awaitsApproval === true) {
    problems.push('the key-value store has gone back: "tsdbctl placement approve"');
  }
  const { numShards, replicaFactor } = placement.placement;
  const head = `${numShards} shards, ${replicaFactor} replicas, placement version ${placement.version}, ${namespaces.length} namespaces`;
  const tail =
    problems.length === 0 ? 'all is well' : problems.map((each) => `! ${each}`).join('\n');
  return { text: `${head}\n${tableText(names, rows)}\n${tail}`, isWell: problems.length === 0 };
}
