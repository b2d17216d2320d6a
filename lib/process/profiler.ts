/**
 * Profiles of this process through the inspector, in the forms that Chrome's developer tools open.
 */
import { Session } from 'node:inspector/promises';
import type { Clock } from '../env/env.ts';

/** Mean distance of two samples of the heap profile. */
const heapSampleBytes = 64 * 1024;

/** Samples the CPU for a time. @returns the text of a `.cpuprofile` file */
export async function cpuProfile(
  clock: Clock,
  millis: number,
  signal: AbortSignal,
): Promise<string> {
  const session = new Session();
  session.connect();
  try {
    await session.post('Profiler.enable');
    await session.post('Profiler.start');
    await clock.sleep(millis, signal);
    const { profile } = await session.post('Profiler.stop');
    return JSON.stringify(profile);
  } finally {
    session.disconnect();
  }
}

/** Samples allocations that live on, for a time. @returns the text of a `.heapprofile` file */
export async function heapProfile(
  clock: Clock,
  millis: number,
  signal: AbortSignal,
): Promise<string> {
  const session = new Session();
  session.connect();
  try {
    await session.post('HeapProfiler.startSampling', { samplingInterval: heapSampleBytes });
    await clock.sleep(millis, signal);
    const { profile } = await session.post('HeapProfiler.stopSampling');
    return JSON.stringify(profile);
  } finally {
    session.disconnect();
  }
}
