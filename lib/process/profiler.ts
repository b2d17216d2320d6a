/**
 * Profiles of this process through the inspector, in the forms that Chrome's developer tools open.
 */
import { Session } from 'node:inspector/promises';
import type { Clock } from '../env/env.ts';
import { TsdbError } from '../errors.ts';

/** Mean distance of two samples of the heap profile. */
const heapSampleBytes = 64 * 1024;

/** After a profile there is none of its kind for so long: each begins by going through all functions that there are, some 0.1 s in which nobody is served. */
const restMillis = 30_000;

/** Another profile of the kind is being taken, or was just now. */
export class ProfilerBusy extends TsdbError {
  readonly retryAfterSeconds: number;

  constructor(kind: string, retryAfterSeconds: number) {
    const when = `the next one may begin in ${retryAfterSeconds} s, ${restMillis / 1000} s after the one before`;
    super('RESOURCE_EXHAUSTED', `one ${kind} profile at a time: ${when}`);
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/**
 * Takes one profile of a kind at a time: each holds up everybody at its end, and 40 at once took
 * seconds and 670 MB.
 */
export class Profiler {
  readonly #clock: Clock;
  /** When the next one may begin, by kind. */
  readonly #nextMillis = new Map<string, number>();
  /** Kinds of which one is being taken; it may take longer than was asked for. */
  readonly #underWay = new Set<string>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Samples the CPU for a time.
   * @returns the text of a `.cpuprofile` file
   * @throws {ProfilerBusy}
   */
  cpu(millis: number, signal: AbortSignal): Promise<string> {
    return this.#alone('CPU', millis, () => cpuProfile(this.#clock, millis, signal));
  }

  /**
   * Samples allocations that live on, for a time.
   * @returns the text of a `.heapprofile` file
   * @throws {ProfilerBusy}
   */
  heap(millis: number, signal: AbortSignal): Promise<string> {
    return this.#alone('heap', millis, () => heapProfile(this.#clock, millis, signal));
  }

  async #alone(kind: string, millis: number, take: () => Promise<string>): Promise<string> {
    const now = this.#clock.monotonicMillis();
    const next = this.#nextMillis.get(kind) ?? now;
    if (next > now) throw new ProfilerBusy(kind, Math.ceil((next - now) / 1000));
    if (this.#underWay.has(kind)) throw new ProfilerBusy(kind, restMillis / 1000);
    this.#underWay.add(kind);
    this.#nextMillis.set(kind, now + millis + restMillis);
    try {
      return await take();
    } finally {
      this.#underWay.delete(kind);
      this.#nextMillis.set(kind, this.#clock.monotonicMillis() + restMillis);
    }
  }
}

async function cpuProfile(clock: Clock, millis: number, signal: AbortSignal): Promise<string> {
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

async function heapProfile(clock: Clock, millis: number, signal: AbortSignal): Promise<string> {
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
