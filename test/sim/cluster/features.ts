/**
 * What a run may have beside the usual, each by name, so that a campaign can leave out what is known
 * to fail until it is mended (open.txt).
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export const features = [
  'rewrites',
  'lost disks',
  'rolled-back disks',
  'damage',
  'read errors',
  'hung disks',
  'clocks',
] as const;

export type Feature = (typeof features)[number];

/** A run that fails, and is known to. */
export interface OpenRun {
  readonly feature: Feature;
  readonly seed: number;
  readonly size: number;
  readonly why: string;
}

/** Lines of `feature, seed, size: why`. */
export function openRuns(): OpenRun[] {
  const text = readFileSync(join(import.meta.dirname, 'open.txt'), 'utf8');
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return lines.map((line) => {
    const match = /^([^,]+), seed (\d+), size (\d+): (.+)$/.exec(line);
    const feature = features.find((name) => name === match?.[1]);
    if (match === null || feature === undefined) throw new Error(`open.txt: ${line}`);
    return { feature, seed: Number(match[2]), size: Number(match[3]), why: match[4]! };
  });
}

/** Those that no open run needs. */
export function mendedFeatures(): ReadonlySet<Feature> {
  const open = new Set<Feature>(openRuns().map(({ feature }) => feature));
  return new Set(features.filter((feature) => !open.has(feature)));
}
