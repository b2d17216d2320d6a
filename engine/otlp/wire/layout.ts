/** Messages of OTLP that are walked: numbers of their fields, and how each is written. */
import { fieldTypes, wireType } from './wire.ts';

const { varint, fixed64, bytes } = wireType;

export const resourceMetrics = { resource: 1, scopeMetrics: 2 } as const;
export const resourceMetricsTypes: Uint8Array = fieldTypes({ 1: bytes, 2: bytes });
export const resourceAttributes = 1;

export const scopeMetrics = { scope: 1, metrics: 2, schemaUrl: 3 } as const;
export const scopeMetricsTypes: Uint8Array = fieldTypes({ 1: bytes, 2: bytes, 3: bytes });
export const scope = { name: 1, version: 2, attributes: 3 } as const;
export const scopeTypes: Uint8Array = fieldTypes({ 1: bytes, 2: bytes, 3: bytes });

export const metric = { name: 1, description: 2, unit: 3 } as const;
/** By the number of the field that has the points. */
export const kind = { gauge: 5, sum: 7, histogram: 9, exponential: 10, summary: 11 } as const;
export const kinds: readonly number[] = Object.values(kind);
export const metricTypes: Uint8Array = fieldTypes(
  Object.fromEntries([...Object.values(metric), ...kinds].map((number) => [number, bytes])),
);

export const data = { points: 1, temporality: 2, isMonotonic: 3 } as const;
export const dataTypes: Uint8Array = fieldTypes({ 1: bytes, 2: varint, 3: varint });
export const temporality = { unspecified: 0, delta: 1, cumulative: 2 } as const;
export const noRecordedValue = 1;

/** Of all points. */
export const point = { startTime: 2, time: 3 } as const;
export const number = { double: 4, exemplars: 5, int: 6, attributes: 7, flags: 8 } as const;
export const numberTypes: Uint8Array = fieldTypes({
  2: fixed64,
  3: fixed64,
  4: fixed64,
  5: bytes,
  6: fixed64,
  7: bytes,
  8: varint,
});
export const histogram = {
  count: 4,
  sum: 5,
  bucketCounts: 6,
  bounds: 7,
  exemplars: 8,
  attributes: 9,
  flags: 10,
} as const;
export const histogramTypes: Uint8Array = fieldTypes({
  2: fixed64,
  3: fixed64,
  4: fixed64,
  5: fixed64,
  6: bytes,
  7: bytes,
  8: bytes,
  9: bytes,
  10: varint,
});
export const exponential = {
  attributes: 1,
  count: 4,
  sum: 5,
  scale: 6,
  zeroCount: 7,
  positive: 8,
  negative: 9,
  flags: 10,
  exemplars: 11,
  zeroThreshold: 14,
} as const;
export const exponentialTypes: Uint8Array = fieldTypes({
  1: bytes,
  2: fixed64,
  3: fixed64,
  4: fixed64,
  5: fixed64,
  6: varint,
  7: fixed64,
  8: bytes,
  9: bytes,
  10: varint,
  11: bytes,
  14: fixed64,
});
export const buckets = { offset: 1, counts: 2 } as const;
export const bucketsTypes: Uint8Array = fieldTypes({ 1: varint, 2: bytes });
export const summary = { count: 4, sum: 5, quantiles: 6, attributes: 7, flags: 8 } as const;
export const summaryTypes: Uint8Array = fieldTypes({
  2: fixed64,
  3: fixed64,
  4: fixed64,
  5: fixed64,
  6: bytes,
  7: bytes,
  8: varint,
});
export const quantile = { quantile: 1, value: 2 } as const;
export const quantileTypes: Uint8Array = fieldTypes({ 1: fixed64, 2: fixed64 });

export const exemplar = {
  time: 2,
  double: 3,
  spanId: 4,
  traceId: 5,
  int: 6,
  attributes: 7,
} as const;
export const exemplarTypes: Uint8Array = fieldTypes({
  2: fixed64,
  3: fixed64,
  4: bytes,
  5: bytes,
  6: fixed64,
  7: bytes,
});
