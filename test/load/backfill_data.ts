/**
 * Remote write bodies of a backfill, oldest first: made here in the shape of the soak's data, or read from a file of
 * frames (u32 length, u32 samples, snappy block; all little-endian), as benchmarks beside other databases use them.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { seriesOfSlice, SliceBody } from './soak_data.ts';

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
