/** How a new namespace of windows is filled from the samples that there are: time, CPU time, memory, and bytes of windows. */
import { seriesSource } from '../backfill_data.ts';
import { dayMillis, hourMillis, minuteMillis } from './data.ts';
import { ResolutionsNode } from './node.ts';

const intervalMillis = 15_000;
const resolutionMillis = 5 * minuteMillis;
const name = 'windows_5m';
const requestsAtOnce = 4;
const lookMillis = 200;

export interface FillOptions {
  readonly folder: string;
  readonly series: number;
  readonly days: number;
  readonly report: (line: string) => void;
}

export interface FillOutcome {
  readonly samples: number;
  readonly windows: number;
  readonly windowFailures: number;
  readonly seconds: number;
  readonly samplesPerSecond: number;
  readonly cpuSecondsPerMillion: number;
  readonly memoryBeforeMebibytes: number;
  readonly memoryMaxMebibytes: number;
  readonly bytesPerWindow: number;
  readonly bytesPerSample: number;
}

export async function fillPart(options: FillOptions): Promise<FillOutcome> {
  const { folder, series, days, report } = options;
  // The end of the last half day whose blocks are closed: slices are half days.
  const slicesEnd = Math.floor((Date.now() / hourMillis - 2.5) / 12) * 12 * hourMillis;
  // With the last row at the end of the last window that is in these slices.
  const lastMillis = slicesEnd - resolutionMillis;
  const scrapes = Math.floor((days * dayMillis - resolutionMillis) / intervalMillis);
  const source = seriesSource({
    seriesCount: series,
    scrapes,
    intervalMillis,
    endMillis: lastMillis + intervalMillis,
  });
  const retentionHours = Math.max(72, Math.ceil(24 * (days + 1)));
  const node = await ResolutionsNode.start(folder, {
    retention: `${retentionHours}h`,
    blockSize: '2h',
  });
  try {
    const frames = source.frames(0);
    const writer = async (): Promise<void> => {
      for (let next = frames.next(); next.done !== true; next = frames.next()) {
        await node.write(next.value.body);
      }
    };
    await Promise.all(Array.from({ length: requestsAtOnce }, writer));
    await node.flush();
    report(`${source.samples} samples of ${series} series are written`);
    const memoryBefore = node.memoryBytes();
    let memoryMax = memoryBefore;
    const watch = setInterval(() => {
      memoryMax = Math.max(memoryMax, node.memoryBytes());
    }, lookMillis);
    await node.addWindows(name, '5m', '2160h');
    const begin = performance.now();
    const before = await node.counts();
    const windows = series * Math.ceil((scrapes * intervalMillis) / resolutionMillis);
    const after = await node.windowsMade(windows);
    const seconds = (performance.now() - begin) / 1000;
    clearInterval(watch);
    const mebibytes = (bytes: number): number => Math.round(bytes / 2 ** 20);
    return {
      samples: source.samples,
      windows: after.windows,
      windowFailures: after.failures,
      seconds,
      samplesPerSecond: Math.round(source.samples / seconds),
      cpuSecondsPerMillion: (after.cpuSeconds - before.cpuSeconds) / (source.samples / 1e6),
      memoryBeforeMebibytes: mebibytes(memoryBefore),
      memoryMaxMebibytes: mebibytes(memoryMax),
      bytesPerWindow: node.filesetBytes(name) / after.windows,
      bytesPerSample: node.filesetBytes('default') / source.samples,
    };
  } finally {
    await node.server.program.stop();
  }
}
