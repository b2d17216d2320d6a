/** What the evaluation of one query shares. */
import type { Aside } from '#engine/aside/aside.ts';
import type { WindowEvaluator } from '#engine/window_functions/windows.ts';
import type { Annotations } from './annotations.ts';
import type { Pacer } from './pacer.ts';
import type { PromqlFeatures } from '../parse/features.ts';
import type { Fetched, Reads } from './reads.ts';

export interface Context {
  readonly query: string;
  readonly pacer: Pacer;
  readonly annotations: Annotations;
  readonly windows: WindowEvaluator;
  /** For what cannot be divided. */
  readonly aside: Aside;
  /** By the plan's fetches. */
  readonly fetched: readonly Fetched[];
  /** For what values name. */
  readonly reads: Reads;
  readonly isRangeQuery: boolean;
  readonly features: PromqlFeatures;
  /** Rows that were decoded. */
  readonly stats: { decodedSamples: number };
}
