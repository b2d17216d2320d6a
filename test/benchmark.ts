/** One figure of a benchmark; `npm run bench` prints them as JSON lines. */
export interface BenchResult {
  /** 'engine/codec: decode, regular times, integers' */
  readonly name: string;
  /** 'ns/sample', 'CPU s/M samples', 'bytes/sample', … */
  readonly unit: string;
  readonly value: number;
}

/** 'small' runs inside `npm test` so that a benchmark never rots, 'full' gives the figures. */
export type BenchSize = 'small' | 'full';
