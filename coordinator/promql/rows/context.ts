/** What the evaluation of one query shares. */
import type { Aside } from '#engine/aside/aside.ts';
import type { WindowEvaluator } from '#engine/window_functions/windows.ts';
import type { SelectResult } from '../../select/storage.ts';
import type { Annotations } from './annotations.ts';
import type { Labels } from './labels.ts';
import type { Pacer } from './pacer.ts';
import type { PromqlFeatures } from '../parse/features.ts';
import type { Fetch } from '../plan/plan.ts';

export interface Fetched {
  readonly fetch: Fetch;
  readonly result: SelectResult;
  readonly labels: readonly Labels[];
  /** By series, 1 where it has typed rows; null where none has. */
  readonly isTyped: Uint8Array | null;
  /** By series, 1 where floats say when they started; null where none does, and unless somebody may ask. */
  readonly hasStarts: Uint8Array | null;
}

export interface Context {
  readonly query: string;
  readonly pacer: Pacer;
  readonly annotations: Annotations;
  readonly windows: WindowEvaluator;
  /** For what cannot be divided. */
  readonly aside: Aside;
  readonly fetched: readonly Fetched[];
  readonly isRangeQuery: boolean;
  readonly features: PromqlFeatures;
  /** Rows that were decoded. */
  readonly stats: { decodedSamples: number };
}
