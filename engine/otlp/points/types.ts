/** What bodies of OTLP are read by, and what comes of them. */
import type { TranslationStrategy } from '#lib/config/schema/sections.ts';
import type { WriteDecoderRows } from '../../write_decoder/write_decoder.ts';
import type { Family } from '../labels/families.ts';
import type { LabelMaker, Labels, LabelSetting, ResourceLabels } from '../labels/labels.ts';
import type { Names } from '../labels/names.ts';
import type { SeriesCache } from '../../series_cache/series_cache.ts';

export interface OtlpSetting extends LabelSetting {
  readonly translationStrategy: TranslationStrategy;
  readonly convertsHistograms: boolean;
  /** Points of delta temporality are stored as they are; else refused. */
  readonly storesDeltas: boolean;
  /** Half of it is between two samples of target_info. */
  readonly lookbackMillis: number;
}

/** What is written at once. Rows hold until the decoder reads something else. */
export interface OtlpPart {
  readonly rows: WriteDecoderRows;
  /** By sample, and by histogram: its data point, counted from the begin of the body; `noPoint` of target_info. */
  readonly pointOfSample: Uint32Array;
  readonly pointOfHistogram: Uint32Array;
  /** Data points that were read, with the refused ones. */
  readonly pointCount: number;
  readonly refusedCount: number;
  /** Of refused points, the first ones. */
  readonly problems: readonly string[];
  /** About what it took, in units of work. */
  readonly units: number;
}

export const noPoint = 0xffff_ffff;

/** A resource, or why its points are refused. */
export type KnownResource = { readonly labels: ResourceLabels } | { readonly problem: string };
export type KnownScope = { readonly labels: Labels } | { readonly problem: string };

/** What is known across bodies. */
export interface OtlpKnown {
  readonly cache: SeriesCache;
  readonly resources: Map<number, KnownResource>;
  readonly scopes: Map<number, KnownScope>;
  readonly families: Map<number, Family>;
  /** Why the points of a series are refused. */
  readonly problems: Map<number, string>;
  readonly names: Names;
  readonly labels: LabelMaker;
}

export interface OtlpBody {
  /**
   * The next part; null when there is no more. 'unchecked' of a long body, and of one that is longer than its first part: nothing
   * of a malformed one is to be written, so `check` comes first, and then the first part.
   * @throws {TsdbError} BAD_REQUEST when it is malformed, RESOURCE_EXHAUSTED when there is no room for its series
   */
  next(): OtlpPart | 'unchecked' | null;
  /**
   * @param pause is awaited now and then, with units of work
   * @throws {TsdbError} BAD_REQUEST when it is malformed
   */
  check(pause: (units: number) => Promise<void>): Promise<void>;
}
