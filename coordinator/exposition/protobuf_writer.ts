/**
 * Families as delimited messages `io.prometheus.client.MetricFamily`, each behind its length. Field numbers are those of the
 * message's definition; what is written is in their order, and zeros are written, too.
 */
import type { Buckets, Histogram } from '#engine/typed/histogram.ts';
import type { Tag } from '#lib/tags.ts';
import { spansOf } from '#engine/prometheus_messages/histogram_message.ts';
import { MessageWriter, writeLabels } from '#engine/prometheus_messages/message_writer.ts';
import {
  classicBucketsOf,
  type ExpositionWriter,
  type FamilyType,
  isCustom,
  type Sample,
} from './families.ts';

const familyTypes: Readonly<Record<FamilyType, number>> = {
  untyped: 3,
  histogram: 4,
  gaugeHistogram: 5,
};

const familyField = { name: 1, type: 3, metric: 4 } as const;
const metricField = { untyped: 5, millis: 6, histogram: 7 } as const;
const histogramField = {
  sum: 2,
  bucket: 3,
  count: 4,
  schema: 5,
  zeroThreshold: 6,
  zeroCount: 8,
  negativeSpan: 9,
  negativeCount: 11,
  positiveSpan: 12,
  positiveCount: 14,
} as const;

/** Metrics lie together in parts of about so many bytes. */
const partBytes = 1 << 16;

export class ProtobufWriter implements ExpositionWriter {
  /** Of families that have ended. */
  #parts: Uint8Array[] = [];
  #partsBytes = 0;
  #hasEnded = false;
  /** Of the family that goes on: what its message begins with, and its metrics. */
  #head: MessageWriter | null = null;
  #metrics: MessageWriter[] = [];
  #metricBytes = 0;
  readonly #metric = new MessageWriter(1 << 12);
  readonly #histogram = new MessageWriter(1 << 10);
  readonly #inner = new MessageWriter(32);

  get heldBytes(): number {
    return this.#metricBytes;
  }

  beginFamily(name: string, type: FamilyType): void {
    this.#endFamily();
    this.#head = new MessageWriter(64);
    this.#head.bytesField(familyField.name, Buffer.from(name));
    this.#head.int64Field(familyField.type, familyTypes[type]);
  }

  sample(labels: readonly Tag[], sample: Sample): void {
    const metric = this.#metric;
    metric.clear();
    writeLabels(metric, labels);
    if ('histogram' in sample) {
      metric.int64Field(metricField.millis, sample.millis);
      metric.bytesField(metricField.histogram, this.#histogramOf(sample.histogram));
    } else {
      this.#inner.clear();
      doubleBits(this.#inner, 1, sample.valueBits);
      metric.bytesField(metricField.untyped, this.#inner.finish());
      metric.int64Field(metricField.millis, sample.millis);
    }
    let part = this.#metrics.at(-1);
    if (part === undefined || part.byteLength >= partBytes) {
      part = new MessageWriter(this.#metrics.length === 0 ? 1 << 10 : partBytes);
      this.#metrics.push(part);
    }
    const before = part.byteLength;
    part.bytesField(familyField.metric, metric.finish());
    this.#metricBytes += part.byteLength - before;
  }

  end(): void {
    this.#endFamily();
    this.#hasEnded = true;
  }

  #endFamily(): void {
    if (this.#head === null) return;
    const head = this.#head.finish();
    const length = new MessageWriter(8);
    length.uvarint(head.length + this.#metricBytes);
    const family = [length.finish(), head, ...this.#metrics.map((part) => part.finish())];
    for (const part of family) {
      this.#parts.push(part);
      this.#partsBytes += part.length;
    }
    this.#head = null;
    this.#metrics = [];
    this.#metricBytes = 0;
  }

  take(): readonly Uint8Array[] {
    if (this.#partsBytes === 0 || (this.#partsBytes < partBytes && !this.#hasEnded)) return [];
    const parts = this.#partsBytes < 2 * partBytes ? [Buffer.concat(this.#parts)] : this.#parts;
    this.#parts = [];
    this.#partsBytes = 0;
    return parts;
  }

  #histogramOf(histogram: Histogram): Uint8Array {
    const message = this.#histogram;
    message.clear();
    doubleBits(message, histogramField.sum, histogram.sumBits);
    if (isCustom(histogram)) {
      for (const { upperBound, count } of classicBucketsOf(histogram)) {
        this.#inner.clear();
        double(this.#inner, 2, upperBound);
        double(this.#inner, 4, count);
        message.bytesField(histogramField.bucket, this.#inner.finish());
      }
      double(message, histogramField.count, histogram.count);
      return message.finish();
    }
    double(message, histogramField.count, histogram.count);
    message.int64Field(histogramField.schema, zigzag(histogram.schema));
    double(message, histogramField.zeroThreshold, histogram.zeroThreshold);
    double(message, histogramField.zeroCount, histogram.zeroCount);
    this.#side(histogramField.negativeSpan, histogramField.negativeCount, histogram.negative);
    this.#side(histogramField.positiveSpan, histogramField.positiveCount, histogram.positive);
    return message.finish();
  }

  #side(spanField: number, countField: number, { indexes, counts }: Buckets): void {
    for (const { offset, length } of spansOf(indexes)) {
      this.#inner.clear();
      this.#inner.int64Field(1, zigzag(offset));
      this.#inner.int64Field(2, length);
      this.#histogram.bytesField(spanField, this.#inner.finish());
    }
    for (const count of counts) double(this.#histogram, countField, count);
  }
}

const scratch = Float64Array.of(0);
const scratchWords = new Uint32Array(scratch.buffer);

function double(message: MessageWriter, field: number, value: number): void {
  scratch[0] = value;
  message.doubleField(field, scratchWords[0]!, scratchWords[1]!);
}

function doubleBits(message: MessageWriter, field: number, bits: bigint): void {
  message.doubleField(field, Number(bits & 0xffff_ffffn), Number(bits >> 32n));
}

const zigzag = (value: number): number => (value >= 0 ? 2 * value : -2 * value - 1);
