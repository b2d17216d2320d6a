/** What is known to fail and not mended yet, as `open.txt` has it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Feature, features } from './features.ts';

/** A run that fails, and is known to. */
export interface OpenRun {
  readonly feature: Feature;
  readonly seed: number;
  readonly size: number;
  readonly why: string;
}

/** A story that ends badly, and is known to. */
export interface OpenStory {
  readonly name: string;
  readonly why: string;
}

const storyLine = /^story ([a-z-]+): (.+)$/;
const runLine = /^([^,]+), seed (\d+), size (\d+): (.+)$/;

function lines(): string[] {
  const text = readFileSync(join(import.meta.dirname, 'open.txt'), 'utf8');
  return text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
}

/** Lines of `feature, seed N, size N: why`. */
export function openRuns(): OpenRun[] {
  return lines().flatMap((line) => {
    if (storyLine.test(line)) return [];
    const match = runLine.exec(line);
    const feature = features.find((name) => name === match?.[1]);
    if (match === null || feature === undefined) throw new Error(`open.txt: ${line}`);
    return [{ feature, seed: Number(match[2]), size: Number(match[3]), why: match[4]! }];
  });
}

/** Lines of `story NAME: why`. */
export function openStories(): OpenStory[] {
  return lines().flatMap((line) => {
    const match = storyLine.exec(line);
    return match === null ? [] : [{ name: match[1]!, why: match[2]! }];
  });
}

/** Those that no open run needs. */
export function mendedFeatures(): ReadonlySet<Feature> {
  const open = new Set<Feature>(openRuns().map(({ feature }) => feature));
  return new Set(features.filter((feature) => !open.has(feature)));
}
