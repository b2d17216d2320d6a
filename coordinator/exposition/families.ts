/**
 * Samples as metric families, by the rules of Prometheus' `/federate`: what follows each other under one name and of one
 * kind is a family, so a name whose series are of several kinds has several.
 */
import { customSchema, type Histogram, resetHint } from '#engine/typed/histogram.ts';
import { metricNameTag, type Tag, type Tags } from '#lib/tags.ts';
import type { Exposition } from './accept.ts';
import { type EscapingScheme, escapedName } from './names.ts';

export type FamilyType = 'untyped' | 'histogram' | 'gaugeHistogram';

/** One value of a series, with its time in Unix milliseconds. */
export type Sample =
  | { readonly millis: number; readonly valueBits: bigint }
  | { readonly millis: number; readonly histogram: Histogram };

/** Puts families into bytes. */
export interface ExpositionWriter {
  /** Ends the family before. */
  beginFamily(name: string, type: FamilyType): void;
  /** @param labels of the family's current one, without the metric name */
  sample(labels: readonly Tag[], sample: Sample): void;
  /** Ends the last family. */
  end(): void;
  /** Bytes that it holds because their family goes on. */
  readonly heldBytes: number;
  /** What can be sent, taken from it: whole parts of some size, and all of it once it has ended. */
  take(): readonly Uint8Array[];
}

/** Is always there: without a value where a series has none, so that who scrapes the answer does not put its own. */
const instanceLabel = 'instance';

export class Families {
  readonly #writer: ExpositionWriter;
  readonly #format: Exposition['format'];
  readonly #escaping: EscapingScheme;
  #name: string | null = null;
  #type: FamilyType = 'untyped';

  constructor(writer: ExpositionWriter, { format, escaping }: Exposition) {
    this.#writer = writer;
    this.#format = format;
    this.#escaping = escaping;
  }

  /** Of series in the order of their metric names. Text has no native histograms; series without a name are left out. */
  add(tags: Tags, sample: Sample): void {
    const type = typeOf(sample);
    if (this.#format === 'text' && 'histogram' in sample && !isCustom(sample.histogram)) return;
    let name = '';
    let hasInstance = false;
    const labels: Tag[] = [];
    for (const tag of tags) {
      if (tag.name === metricNameTag) {
        name = tag.value;
        continue;
      }
      hasInstance ||= tag.name === instanceLabel;
      labels.push({ name: escapedName(tag.name, this.#escaping), value: tag.value });
    }
    if (name === '') return;
    if (!hasInstance) labels.push({ name: instanceLabel, value: '' });
    if (name !== this.#name || type !== this.#type) {
      this.#name = name;
      this.#type = type;
      this.#writer.beginFamily(escapedName(name, this.#escaping), type);
    }
    this.#writer.sample(labels, sample);
  }
}

function typeOf(sample: Sample): FamilyType {
  if (!('histogram' in sample)) return 'untyped';
  return sample.histogram.hint === resetHint.gauge ? 'gaugeHistogram' : 'histogram';
}

export function isCustom({ schema }: Histogram): boolean {
  return schema === customSchema;
}

/** A bucket of a classic histogram, without the one that has no bound. */
export interface ClassicBucket {
  readonly upperBound: number;
  /** Of it and all below it. */
  readonly count: number;
}

/** @param histogram of custom bounds */
export function classicBucketsOf({ customBounds, positive }: Histogram): ClassicBucket[] {
  const buckets: ClassicBucket[] = [];
  let count = 0;
  let next = 0;
  for (const [index, upperBound] of customBounds.entries()) {
    if (positive.indexes[next] === index) count += positive.counts[next++]!;
    buckets.push({ upperBound, count });
  }
  return buckets;
}
