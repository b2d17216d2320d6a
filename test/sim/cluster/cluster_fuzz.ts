/**
 * Whole clusters of the production code on one seed (docs/SIMULATION.md): whatever befalls them,
 * what was acknowledged is in every majority read, and in the end they settle.
 */
import { mendedFeatures } from './open.ts';
import { runCluster } from './run.ts';

/** @param size faults of the run, one every half minute of its time */
export async function fuzz(
  seed: number,
  size: number,
  onTrace: ((line: string) => void) | null = null,
): Promise<void> {
  await runCluster({ seed, size, features: mendedFeatures(), onTrace });
}
