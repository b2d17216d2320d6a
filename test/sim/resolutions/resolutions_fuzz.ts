/**
 * Clusters with several resolutions on one seed (docs/SIMULATION.md): whatever befalls them and however rules change, windows
 * and rollups come to what their rows say.
 */
import { runResolutions } from './run.ts';

/** @param size faults of the run, one every half minute of its time; 50 are 400 days of scaled time */
export async function fuzz(
  seed: number,
  size: number,
  onTrace: ((line: string) => void) | null = null,
): Promise<void> {
  await runResolutions({ seed, size, onTrace });
}
