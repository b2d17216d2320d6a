/**
 * Remote write bodies of a backfill, oldest first: made here in the shape of the soak's data, or
 * read from a file of frames (u32 length, u32 samples, snappy block; all little-endian), as
 * benchmarks beside other databases use them.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { labelsOf, seriesOfSlice, SliceBody, valueOf } from './soak_data.ts';

export interface Frame {
  readonly samples: number;
  readonly body: Buffer;
}

export interface BackfillSource {
  /** Samples of all frames. */
  readonly samples: number;
  readonly startMillis: number;
  readonly endMillis: number;
  /** Frames from a part of the whole on: 0 gives all, 0.9 the last tenth. */
  frames(fromPart: number): Generator<Frame, void, undefined>;
}

export interface MadeOptions {
  readonly seriesCount: number;
  readonly scrapes: number;
  readonly intervalMillis: number;
  readonly endMillis: number;
}

/** Each series has one sample a scrape; a body holds one scrape of at most 2000 series. */
export function madeSource(options: MadeOptions): BackfillSource {
  const { seriesCount, scrapes, intervalMillis, endMillis } = options;
  const bodies = Array.from(
    { length: Math.ceil(seriesCount / seriesOfSlice) },
    (_, slice) => new SliceBody(slice, seriesCount, 0),
  );
  const startMillis = endMillis - scrapes * intervalMillis;
  return {
    samples: seriesCount * scrapes,
    startMillis,
    endMillis,
    *frames(fromPart) {
      for (let scrape = Math.floor(scrapes * fromPart); scrape < scrapes; scrape += 1) {
        for (const slice of bodies) {
          const body = slice.at(scrape, startMillis + scrape * intervalMillis);
          yield { samples: slice.seriesCount, body };
        }
      }
    },
  };
}

/** Samples of one series in a body, when series come one after the other. */
const samplesOfBody = 2000;
const sampleBytes = 18;
const timeBytes = 6;
const literalBytesMax = 65_536;

/**
 * Each series from its first sample to its last, then the next one: as a tool that exports series
 * does.
 */
export function seriesSource(options: MadeOptions): BackfillSource {
  const { seriesCount, scrapes, intervalMillis, endMillis } = options;
  const startMillis = endMillis - scrapes * intervalMillis;
  return {
    samples: seriesCount * scrapes,
    startMillis,
    endMillis,
    *frames(fromPart) {
      const first = Math.floor(scrapes * fromPart);
      for (let series = 0; series < seriesCount; series += 1) {
        for (let from = first; from < scrapes; from += samplesOfBody) {
          const samples = Math.min(samplesOfBody, scrapes - from);
          const times = { first: from, count: samples, startMillis, intervalMillis };
          yield { samples, body: seriesBody(series, times) };
        }
      }
    },
  };
}

function seriesBody(
  series: number,
  times: { first: number; count: number; startMillis: number; intervalMillis: number },
): Buffer {
  const labels = Buffer.concat(
    labelsOf(series, 0).map(([name, value]) =>
      lengthField(
        1,
        Buffer.concat([lengthField(1, Buffer.from(name)), lengthField(2, Buffer.from(value))]),
      ),
    ),
  );
  const samples = Buffer.alloc(times.count * sampleBytes);
  for (let i = 0; i < times.count; i += 1) {
    const scrape = times.first + i;
    const at = i * sampleBytes;
    samples[at] = (2 << 3) | 2;
    samples[at + 1] = sampleBytes - 2;
    samples[at + 2] = (1 << 3) | 1;
    samples.writeDoubleLE(valueOf(series, scrape), at + 3);
    samples[at + 11] = 2 << 3;
    let rest = times.startMillis + scrape * times.intervalMillis;
    for (let byte = 0; byte < timeBytes; byte += 1) {
      samples[at + 12 + byte] = (rest % 128) | (byte + 1 < timeBytes ? 128 : 0);
      rest = Math.floor(rest / 128);
    }
  }
  return snappyLiterals(lengthField(1, Buffer.concat([labels, samples])));
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return Buffer.from([...bytes, rest]);
}

function lengthField(number: number, bytes: Uint8Array): Buffer {
  return Buffer.concat([varint((number << 3) | 2), varint(bytes.length), bytes]);
}

function snappyLiterals(bytes: Uint8Array): Buffer {
  const parts: Uint8Array[] = [varint(bytes.length)];
  for (let at = 0; at < bytes.length; at += literalBytesMax) {
    const part = bytes.subarray(at, at + literalBytesMax);
    parts.push(Uint8Array.of(61 << 2, (part.length - 1) & 255, (part.length - 1) >> 8), part);
  }
  return Buffer.concat(parts);
}

const frameHeaderBytes = 8;

/** Reads frames of a file. @param options.samples and times as the file was made with */
export function fileSource(
  path: string,
  options: Pick<BackfillSource, 'startMillis' | 'endMillis'>,
): BackfillSource {
  const sums = [...framesOf(path, false)];
  const samples = sums.reduce((sum, frame) => sum + frame.samples, 0);
  return {
    ...options,
    samples,
    *frames(fromPart) {
      let before = 0;
      for (const frame of framesOf(path, true)) {
        if (before >= samples * fromPart) yield frame;
        before += frame.samples;
      }
    },
  };
}

function* framesOf(path: string, withBodies: boolean): Generator<Frame, void, undefined> {
  const file = openSync(path, 'r');
  try {
    const header = Buffer.alloc(frameHeaderBytes);
    const { size } = fstatSync(file);
    for (let at = 0; at < size; ) {
      if (readSync(file, header, 0, frameHeaderBytes, at) < frameHeaderBytes) {
        throw new Error(`a frame is cut off: ${path}`);
      }
      const length = header.readUInt32LE(0);
      const body = Buffer.alloc(withBodies ? length : 0);
      if (withBodies) readSync(file, body, 0, length, at + frameHeaderBytes);
      yield { samples: header.readUInt32LE(4), body };
      at += frameHeaderBytes + length;
    }
  } finally {
    closeSync(file);
  }
}
