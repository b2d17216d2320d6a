/**
 * Levels of formats (docs/OPERATIONS.md, Upgrade). What an image of nodes reads is known when nodes
 * that ran it have said so: a name or a tag proves nothing. One that is known not to read what is
 * written is not rolled out; of one that nobody has run yet the first pod is the proof.
 */
import type { Observed } from '../observe/observe.ts';
import { annotation, label } from '../resource/keys.ts';
import { podReady } from '../resource/pod_state.ts';
import { doing, type Part } from '../part/part.ts';

/** Images that are remembered, those that were seen last. */
const imagesMax = 16;
/** A process before it has ended when its pod's next one has been ready for so long. */
const settledMillis = 30_000;

/** Of the process of a node: others may have put containers before it. */
function imageOf(spec: unknown): string {
  const { containers } = spec as {
    readonly containers: readonly { readonly name: string; readonly image: string }[];
  };
  return containers.find(({ name }) => name === 'node')!.image;
}

export interface FormatLevels {
  /** The highest one that a node writes. */
  readonly written: number;
  /** The highest one that all nodes read; null when one has not said. */
  readonly readable: number | null;
}

/** Null when nobody has said anything. */
export function formatLevels({ coordinator, record }: Observed): FormatLevels | null {
  const healths =
    coordinator.reachable && coordinator.healths instanceof Map
      ? [...coordinator.healths.values()]
      : [];
  const said = healths.flatMap((health) => ('error' in health ? [] : [health]));
  const written = Math.max(
    record?.formats?.written ?? 0,
    ...said.map(({ formatLevelWritten }) => formatLevelWritten),
  );
  if (written === 0) return null;
  const isWhole = said.length > 0 && said.length === healths.length;
  return {
    written,
    readable: isWhole ? Math.min(...said.map(({ formatLevel }) => formatLevel)) : null,
  };
}

/** What images read, to be remembered: as nodes say that run them and agree. */
export function imageFormats(observed: Observed): Readonly<Record<string, number>> {
  const { coordinator, pods, record, nowMillis } = observed;
  const before = record?.formats?.images ?? {};
  if (!coordinator.reachable || !(coordinator.healths instanceof Map)) return before;
  const said = new Map<string, Set<number>>();
  for (const pod of pods) {
    if (pod.metadata.labels?.[label.component] !== 'node' || !podReady(pod)) continue;
    const health = coordinator.healths.get(pod.metadata.name);
    const ready = pod.status?.conditions?.find(({ type }) => type === 'Ready');
    const sinceMillis = nowMillis - Date.parse(ready?.lastTransitionTime ?? '1970-01-01');
    if (health === undefined || 'error' in health || sinceMillis < settledMillis) continue;
    const image = imageOf(pod['spec']);
    said.set(image, (said.get(image) ?? new Set()).add(health.formatLevel));
  }
  const now = [...said].flatMap(([image, levels]): [string, number][] =>
    levels.size === 1 ? [[image, [...levels][0]!]] : [],
  );
  const known = new Map(Object.entries(before));
  const isNew = now.filter(([image, level]) => known.get(image) !== level);
  if (isNew.length === 0) return before;
  const names = new Set(isNew.map(([image]) => image));
  const kept = Object.entries(before).filter(([image]) => !names.has(image));
  return Object.fromEntries([...kept, ...isNew].slice(-imagesMax));
}

/** Why nodes cannot have the image of this template; null when they can, or when nobody knows. */
export function downgradeOf(observed: Observed, template: unknown): string | null {
  const image = imageOf((template as { readonly spec: unknown }).spec);
  const levels = new Map(Object.entries(observed.record?.formats?.images ?? {}));
  const level = levels.get(image);
  const written = formatLevels(observed)?.written ?? 0;
  if (level === undefined || level >= written) return null;
  return `${image} reads formats up to level ${level}, and the data are of level ${written}: it would not start on them`;
}

/** When a person has asked for it, and all nodes read more than is written. */
export function finishPart(observed: Observed): Part | null {
  if (!isFinishAsked(observed) || !canFinish(observed)) return null;
  const failure = observed.failureOf({ kind: 'upgrade-finish' });
  const why = failure === null ? '' : `: ${failure.message}`;
  const message = `the newest formats are to be written from now on${why}`;
  return doing([{ kind: 'upgrade-finish' }], 'UpgradeFinishing', message);
}

export function canFinish(observed: Observed): boolean {
  const levels = formatLevels(observed);
  return levels !== null && levels.readable !== null && levels.readable > levels.written;
}

/** The annotation has done what it was for. */
export function isFinished(observed: Observed): boolean {
  const levels = formatLevels(observed);
  return levels !== null && levels.readable !== null && levels.readable <= levels.written;
}

const isFinishAsked = ({ cluster }: Observed): boolean =>
  cluster.metadata.annotations?.[annotation.finishUpgrade] === 'true';
