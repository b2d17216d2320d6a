/**
 * The end of an upgrade: who reads which formats (lib/format_level.ts), and the switch to the newest
 * ones. It is one key of the key-value store that only ever rises, written when every instance of
 * the placement has said that it reads them, and so have those who read from it.
 */
import { TsdbError } from '#lib/errors.ts';
import { formatLevelFirst, formatLevelNewest } from '#lib/format_level.ts';
import { type ClusterName, finishedFormatsKey } from '../kv/keys.ts';
import type { Compare, Kv, Operation } from '../kv/kv.ts';
import { compareAndSet, unchanged } from '../kv/stored_json.ts';
import { finishedLevelOf, finishedLevelValue } from '../metadata/finished_formats.ts';
import type { Instance, Placement } from '../placement/placement.ts';
import type { PlacementStore } from '../placement/store.ts';
import {
  askHealth,
  askHealths,
  type HealthTarget,
  type InstanceHealth,
} from './instance_health.ts';

export interface UpgradeTarget extends HealthTarget {
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly placements: PlacementStore;
}

/** Levels that an instance announces, or why it does not. */
export type InstanceFormats =
  | { readonly reads: number; readonly writes: number; readonly readersRead: number }
  | { readonly error: string };

export interface UpgradeStatus {
  readonly formatLevel: {
    /** Of the process that answers. */
    readonly newest: number;
    /** Of the cluster: what is written. */
    readonly finished: number;
  };
  readonly instances: Readonly<Record<string, InstanceFormats>>;
  /** What is in the way of the newest one, an instance each; empty when nothing is. */
  readonly behind: readonly string[];
}

/** @throws {TsdbError} NOT_FOUND without a placement */
export async function upgradeStatus(
  target: UpgradeTarget,
  signal: AbortSignal,
): Promise<UpgradeStatus> {
  const placement = (await target.placements.require(signal)).value;
  const { level } = await finishedOf(target, signal);
  return statusOf(target, placement, { finished: level }, signal);
}

/**
 * Has the newest formats written from now on; nothing when they are already.
 * @param dryRun writes nothing
 * @param force whoever reads from the instances: clients that do not say what they read are known to
 *   be able to. What the instances read is asked for all the same
 * @throws {TsdbError} NOT_FOUND without a placement, CONFLICT that names who is in the way
 */
export function upgradeFinish(
  target: UpgradeTarget,
  { dryRun, force }: { readonly dryRun: boolean; readonly force: boolean },
  signal: AbortSignal,
): Promise<UpgradeStatus> {
  return compareAndSet(
    target.kv,
    async () => {
      const { value: placement, modRevision } = await target.placements.require(signal);
      const finished = await finishedOf(target, signal);
      const before = await statusOf(
        target,
        placement,
        { finished: finished.level, whoeverReads: force },
        signal,
      );
      if (finished.level >= formatLevelNewest) {
        return { compares: [], operations: [], result: before };
      }
      if (before.behind.length > 0) {
        const who = before.behind.join('; ');
        throw new TsdbError(
          'CONFLICT',
          `cannot finish the upgrade to formats of level ${formatLevelNewest}: ${who}`,
        );
      }
      const formatLevel = { ...before.formatLevel, finished: formatLevelNewest };
      const { compares, operations } = finishing(target, finished);
      return {
        // Who joined meanwhile was not asked.
        compares: [...compares, unchanged(target.placements.key, { modRevision })],
        operations: dryRun ? [] : operations,
        result: { ...before, formatLevel },
      };
    },
    signal,
  );
}

/**
 * What is written with the first placement of a cluster, and once more before its first namespace is
 * ready: that it is finished, since there are no data, when all of its instances read the newest
 * formats. Nothing when one does not say so: the upgrade is finished by hand then.
 */
export async function finishingFirst(
  target: UpgradeTarget,
  placement: Placement,
  signal: AbortSignal,
): Promise<{ compares: readonly Compare[]; operations: readonly Operation[] }> {
  const finished = await finishedOf(target, signal);
  const nothing = { compares: [], operations: [] };
  if (finished.level >= formatLevelNewest) return nothing;
  const { behind } = await statusOf(target, placement, { finished: finished.level }, signal);
  return behind.length > 0 ? nothing : finishing(target, finished);
}

/**
 * Refuses instances that are to join and say that they cannot read what the cluster writes. Who does
 * not answer yet ends by itself when it does.
 * @throws {TsdbError} CONFLICT that names them
 */
export async function refuseFormerReleases(
  target: UpgradeTarget,
  instances: readonly Instance[],
  signal: AbortSignal,
): Promise<void> {
  const { level } = await finishedOf(target, signal);
  if (level === formatLevelFirst) return;
  const asked = await Promise.all(
    instances.map(async (instance) => {
      const formats = formatsOf(await askHealth(target, instance, signal));
      const isBehind = 'reads' in formats && formats.reads < level;
      return isBehind ? [`${instance.id} reads up to ${formats.reads}`] : [];
    }),
  );
  const behind = asked.flat();
  if (behind.length === 0) return;
  throw new TsdbError(
    'CONFLICT',
    `the cluster writes formats of level ${level}, which instances of an earlier release cannot read: ${behind.join(', ')}`,
  );
}

export interface Finished {
  readonly level: number;
  readonly modRevision: number;
}

/** The level that is finished for the cluster. */
export async function finishedOf(
  { kv, cluster }: UpgradeTarget,
  signal: AbortSignal,
): Promise<Finished> {
  const item = await kv.get(finishedFormatsKey(cluster), signal);
  return { level: finishedLevelOf(item?.value ?? null), modRevision: item?.modRevision ?? 0 };
}

function finishing(
  { cluster }: UpgradeTarget,
  before: Finished,
): { compares: readonly Compare[]; operations: readonly Operation[] } {
  const key = finishedFormatsKey(cluster);
  const value = finishedLevelValue(formatLevelNewest);
  return { compares: [unchanged(key, before)], operations: [{ kind: 'put', key, value }] };
}

async function statusOf(
  target: UpgradeTarget,
  { instances }: Placement,
  options: { readonly finished: number; readonly whoeverReads?: boolean },
  signal: AbortSignal,
): Promise<UpgradeStatus> {
  const { finished, whoeverReads = false } = options;
  const healths = await askHealths(target, instances, signal);
  const byId = Object.fromEntries([...healths].map(([id, health]) => [id, formatsOf(health)]));
  const behind = Object.entries(byId).flatMap(([id, formats]) => {
    const problem = problemOf(formats, whoeverReads);
    return problem === null ? [] : [`${id} ${problem}`];
  });
  return { formatLevel: { newest: formatLevelNewest, finished }, instances: byId, behind };
}

function problemOf(formats: InstanceFormats, whoeverReads: boolean): string | null {
  if ('error' in formats) return `does not answer (${formats.error})`;
  const { reads, readersRead } = formats;
  if (reads < formatLevelNewest) {
    return `is of an earlier release, which reads formats up to level ${reads}`;
  }
  if (readersRead < formatLevelNewest && !whoeverReads) {
    return `was read or written in the last ten minutes by a coordinator or client of an earlier release, which knows formats up to level ${readersRead}`;
  }
  return null;
}

function formatsOf(health: InstanceHealth): InstanceFormats {
  if ('error' in health) return health;
  return {
    reads: health.formatLevel,
    writes: health.formatLevelWritten,
    readersRead: health.formatLevelOfReaders,
  };
}
