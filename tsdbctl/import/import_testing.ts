/** Parts, sources and journals in memory, and a target that is a coordinator, for tests of imports. */
import type { TestCoordinator } from '#coordinator/coordinator_testing.ts';
import type { Clock } from '#lib/env/env.ts';
import { realEnv } from '#lib/env/real.ts';
import { type Journal, nothingDone, type Progress } from './journal.ts';
import type { ImportOptions } from './run.ts';
import type { ImportPart, ImportSeries, ImportSource } from '../sources/source.ts';
import { Target } from './target.ts';

export const signal: AbortSignal = new AbortController().signal;
export const clock: Clock = realEnv.clock;
export const options: ImportOptions = {
  parallel: 2,
  rowsPerSecondMax: Number.POSITIVE_INFINITY,
  skipsDamaged: false,
  takesHistograms: true,
};
export const stale: number = new Float64Array(BigUint64Array.of(0x7ff0000000000002n).buffer)[0]!;

export const seriesOf = (
  name: string,
  timestampNanos: readonly bigint[],
  values: Float64Array,
  more: Partial<ImportSeries> = {},
): ImportSeries => ({
  tags: [
    { name: '__name__', value: name },
    { name: 'host', value: 'ä' },
  ],
  timestampNanos: BigInt64Array.from(timestampNanos),
  values,
  ...more,
});

export function partOf(name: string, all: readonly ImportSeries[]): ImportPart {
  const times = all.flatMap(({ timestampNanos }) => [...timestampNanos]);
  return {
    name,
    startNanos: times.reduce((a, b) => (b < a ? b : a), 2n ** 62n),
    endNanos: times.reduce((a, b) => (b > a ? b : a), 0n) + 1n,
    bytes: 100,
    contents: [name],
    async *series(skip) {
      yield* all.slice(skip);
    },
  };
}

export const sourceOf = (...parts: readonly ImportPart[]): ImportSource => ({
  parts: async () => parts,
  notes: [],
  unfinished: 0,
});

/** In memory. */
export class TestJournal implements Pick<Journal, 'read' | 'write'> {
  progress: Progress = nothingDone;
  async read(): Promise<Progress> {
    return this.progress;
  }
  async write(progress: Progress): Promise<void> {
    this.progress = progress;
  }
}

export const targetOf = (test: TestCoordinator): Target =>
  new Target(test.url('/'), { ...clock, sleep: async () => {} }, signal, () => {});

export const stored = (test: TestCoordinator): Map<string, Map<bigint, bigint | Uint8Array>> =>
  new Map(
    test.node
      .seriesOf('default')
      .map(({ decoded, rows }) => [decoded.map(({ value }) => value).join(' '), rows]),
  );
