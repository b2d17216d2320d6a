/** Messages of OTLP with their fields, by number and by name: for checks and for JSON. */
import { wireType } from './wire.ts';

export type FieldKind =
  | 'string'
  | 'bytes'
  /** Bytes that JSON has as hexadecimal digits, which are written as they are: who reads them knows both. */
  | 'id'
  | 'bool'
  | 'double'
  | IntegerKind
  | 'message';

/** As protobuf names them. */
export type IntegerKind =
  | 'int64'
  | 'uint64'
  | 'uint32'
  | 'sint32'
  | 'enum'
  | 'fixed64'
  | 'sfixed64';

export interface FieldShape {
  readonly number: number;
  readonly name: string;
  readonly kind: FieldKind;
  readonly isList: boolean;
  readonly wireType: number;
  /** A list of numbers of eight bytes. */
  readonly isWords: boolean;
  /** Of messages. */
  readonly shape?: MessageShape;
}

export interface MessageShape {
  readonly byNumber: Map<number, FieldShape>;
  readonly byName: Map<string, FieldShape>;
}

const wireTypes: Readonly<Record<FieldKind, number>> = {
  string: wireType.bytes,
  bytes: wireType.bytes,
  id: wireType.bytes,
  bool: wireType.varint,
  double: wireType.fixed64,
  int64: wireType.varint,
  uint64: wireType.varint,
  uint32: wireType.varint,
  sint32: wireType.varint,
  enum: wireType.varint,
  fixed64: wireType.fixed64,
  sfixed64: wireType.fixed64,
  message: wireType.bytes,
};

type Given = FieldKind | MessageShape | readonly [FieldKind | MessageShape];

/** @param fields names as JSON has them, with number and kind; in brackets a list */
function shape(
  fields: Readonly<Record<string, readonly [number: number, given: Given]>>,
): MessageShape {
  const made: MessageShape = { byNumber: new Map(), byName: new Map() };
  for (const [name, field] of Object.entries(fields)) add(made, name, field);
  return made;
}

function add(to: MessageShape, name: string, [number, given]: readonly [number, Given]): void {
  const isList = Array.isArray(given);
  const of = (isList ? (given as readonly unknown[])[0] : given) as FieldKind | MessageShape;
  const kind = typeof of === 'string' ? of : 'message';
  const isPacked = isList && wireTypes[kind] !== wireType.bytes;
  const field: FieldShape = {
    number,
    name,
    kind,
    isList,
    wireType: isPacked ? wireType.bytes : wireTypes[kind],
    isWords: isPacked && wireTypes[kind] === wireType.fixed64,
    ...(typeof of === 'string' ? {} : { shape: of }),
  };
  to.byNumber.set(number, field);
  to.byName.set(name, field);
}

const anyValue = shape({
  stringValue: [1, 'string'],
  boolValue: [2, 'bool'],
  intValue: [3, 'int64'],
  doubleValue: [4, 'double'],
  bytesValue: [7, 'bytes'],
});
const keyValue = shape({ key: [1, 'string'], value: [2, anyValue] });
add(anyValue, 'arrayValue', [5, shape({ values: [1, [anyValue]] })]);
add(anyValue, 'kvlistValue', [6, shape({ values: [1, [keyValue]] })]);

const exemplar = shape({
  timeUnixNano: [2, 'fixed64'],
  asDouble: [3, 'double'],
  spanId: [4, 'id'],
  traceId: [5, 'id'],
  asInt: [6, 'sfixed64'],
  filteredAttributes: [7, [keyValue]],
});
const numberPoint = shape({
  startTimeUnixNano: [2, 'fixed64'],
  timeUnixNano: [3, 'fixed64'],
  asDouble: [4, 'double'],
  exemplars: [5, [exemplar]],
  asInt: [6, 'sfixed64'],
  attributes: [7, [keyValue]],
  flags: [8, 'uint32'],
});
const histogramPoint = shape({
  startTimeUnixNano: [2, 'fixed64'],
  timeUnixNano: [3, 'fixed64'],
  count: [4, 'fixed64'],
  sum: [5, 'double'],
  bucketCounts: [6, ['fixed64']],
  explicitBounds: [7, ['double']],
  exemplars: [8, [exemplar]],
  attributes: [9, [keyValue]],
  flags: [10, 'uint32'],
});
const buckets = shape({ offset: [1, 'sint32'], bucketCounts: [2, ['uint64']] });
const exponentialPoint = shape({
  attributes: [1, [keyValue]],
  startTimeUnixNano: [2, 'fixed64'],
  timeUnixNano: [3, 'fixed64'],
  count: [4, 'fixed64'],
  sum: [5, 'double'],
  scale: [6, 'sint32'],
  zeroCount: [7, 'fixed64'],
  positive: [8, buckets],
  negative: [9, buckets],
  flags: [10, 'uint32'],
  exemplars: [11, [exemplar]],
  zeroThreshold: [14, 'double'],
});
const quantile = shape({ quantile: [1, 'double'], value: [2, 'double'] });
const summaryPoint = shape({
  startTimeUnixNano: [2, 'fixed64'],
  timeUnixNano: [3, 'fixed64'],
  count: [4, 'fixed64'],
  sum: [5, 'double'],
  quantileValues: [6, [quantile]],
  attributes: [7, [keyValue]],
  flags: [8, 'uint32'],
});
const dataOf = (point: MessageShape): MessageShape =>
  shape({
    dataPoints: [1, [point]],
    aggregationTemporality: [2, 'enum'],
    isMonotonic: [3, 'bool'],
  });
const metric = shape({
  name: [1, 'string'],
  description: [2, 'string'],
  unit: [3, 'string'],
  gauge: [5, dataOf(numberPoint)],
  sum: [7, dataOf(numberPoint)],
  histogram: [9, dataOf(histogramPoint)],
  exponentialHistogram: [10, dataOf(exponentialPoint)],
  summary: [11, dataOf(summaryPoint)],
});
const scopeMetrics = shape({
  scope: [1, shape({ name: [1, 'string'], version: [2, 'string'], attributes: [3, [keyValue]] })],
  metrics: [2, [metric]],
  schemaUrl: [3, 'string'],
});
const resourceMetrics = shape({
  resource: [1, shape({ attributes: [1, [keyValue]] })],
  scopeMetrics: [2, [scopeMetrics]],
});

/** ExportMetricsServiceRequest, which is also MetricsData. */
export const request: MessageShape = shape({ resourceMetrics: [1, [resourceMetrics]] });
