/** Parts that the requests of the JSON listeners share: time types, ranges, queries, tags. */
import type { JsonValue } from '#engine/messages/json.ts';
import { badRequest } from '#lib/errors.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { encodeTags, type Tag, tagsProblem } from '#lib/tags.ts';
import type { UnixNanos } from '#lib/time.ts';
import type { JsonFields } from './fields.ts';

export const timeTypes = [
  'UNIX_SECONDS',
  'UNIX_MILLISECONDS',
  'UNIX_MICROSECONDS',
  'UNIX_NANOSECONDS',
] as const;
export type TimeType = (typeof timeTypes)[number];

const unitNanosOf: Record<TimeType, bigint> = {
  UNIX_SECONDS: 1_000_000_000n,
  UNIX_MILLISECONDS: 1_000_000n,
  UNIX_MICROSECONDS: 1_000n,
  UNIX_NANOSECONDS: 1n,
};

/** Nesting of a query; deeper ones are refused. */
const queryDepthMax = 64;

const int64Max = 2n ** 63n - 1n;

export function timeTypeOf(fields: JsonFields, name: string): TimeType {
  return fields.wordOr(name, timeTypes, 'UNIX_SECONDS');
}

/** A time in its unit, rounded down. */
export function timeIn(nanos: UnixNanos, type: TimeType): bigint {
  const unit = unitNanosOf[type];
  const rest = nanos % unit;
  return (nanos - (rest < 0n ? rest + unit : rest)) / unit;
}

/** @throws {TsdbError} BAD_REQUEST when it does not fit 64 bits of nanoseconds */
export function nanosOf(fields: JsonFields, name: string, type: TimeType): UnixNanos {
  const nanos = fields.whole(name) * unitNanosOf[type];
  if (nanos > int64Max || nanos < -int64Max) {
    throw fields.bad(name, `is out of range in ${type}`, nanos / unitNanosOf[type]);
  }
  return nanos;
}

export interface RangeRequest {
  readonly startNanos: UnixNanos;
  readonly endNanos: UnixNanos;
  readonly resultTimeType: TimeType;
}

/** `rangeStart`, inclusive, and `rangeEnd`, exclusive. */
export function rangeOf(fields: JsonFields): RangeRequest {
  const alias = fields.has('rangeTimeType') ? 'rangeTimeType' : 'rangeType';
  const rangeType = timeTypeOf(fields, alias);
  const startNanos = nanosOf(fields, 'rangeStart', rangeType);
  const endNanos = nanosOf(fields, 'rangeEnd', rangeType);
  if (endNanos < startNanos) {
    throw badRequest('cannot read request: rangeEnd is before rangeStart');
  }
  return { startNanos, endNanos, resultTimeType: timeTypeOf(fields, 'resultTimeType') };
}

const queryKinds = [
  'term',
  'regexp',
  'field',
  'all',
  'conjunction',
  'disjunction',
  'negation',
] as const;

/**
 * A query node: an object with exactly one of the kinds; null, when it was left out, is all series.
 */
export function queryOf(fields: JsonFields | null, depth = 0): IndexQuery {
  if (fields === null) return { kind: 'all' };
  if (depth > queryDepthMax) throw badRequest('cannot read query: it is nested too deeply');
  const given = queryKinds.filter((kind) => fields.has(kind));
  fields.end();
  if (given.length > 1) throw badRequest(`multiple query types specified: ${given.join(', ')}`);
  const [kind] = given;
  if (kind === undefined) throw badRequest('no query types specified');
  const node = fields.object(kind);
  const query = nodeOf(kind, node, depth);
  node.end();
  return query;
}

function nodeOf(kind: (typeof queryKinds)[number], node: JsonFields, depth: number): IndexQuery {
  switch (kind) {
    case 'term':
      return { kind, field: node.text('field'), term: node.text('term') };
    case 'regexp':
      return { kind, field: node.text('field'), regexp: node.text('regexp') };
    case 'field':
      return { kind, field: node.text('field') };
    case 'all':
      return { kind };
    case 'conjunction':
    case 'disjunction':
      return { kind, queries: node.objects('queries').map((query) => queryOf(query, depth + 1)) };
    case 'negation':
      return { kind, query: queryOf(node.object('query'), depth + 1) };
    default:
      return kind satisfies never;
  }
}

/** Canonical tags of `tags: [{name, value}]`, which must keep the rules for names. */
export function tagsOf(fields: JsonFields): Uint8Array {
  const tags: Tag[] = fields.objects('tags').map((tag) => {
    const name = tag.text('name');
    const value = tag.text('value');
    tag.end();
    return { name, value };
  });
  if (tags.length === 0) return new Uint8Array(0);
  const problem = tagsProblem(tags);
  if (problem !== null) throw badRequest(`cannot write: tags: ${problem}`);
  return encodeTags(tags);
}

/** A number, a message in protobuf's JSON, or one in its wire form: where no field is set its bytes are none. */
export type DatapointValue =
  | { readonly float: number; readonly hasAnnotation: boolean }
  | { readonly json: JsonValue }
  | { readonly wire: Uint8Array };

/**
 * `datapoint: {timestamp, value, annotation?, timestampTimeType?}`: the value is a number or an object; an annotation is
 * base64 of a message in the place of it, as M3's clients send it.
 */
export function datapointOf(fields: JsonFields): { nanos: UnixNanos; value: DatapointValue } {
  const datapoint = fields.object('datapoint');
  const type = timeTypeOf(datapoint, 'timestampTimeType');
  const nanos = nanosOf(datapoint, 'timestamp', type);
  const json = datapoint.rawObject('value');
  const hasAnnotation = datapoint.has('annotation');
  const annotation = datapoint.textOr('annotation', '');
  let value: DatapointValue;
  if (json !== null) {
    if (annotation !== '')
      throw datapoint.bad('annotation', 'is given beside an object', annotation);
    value = { json };
  } else if (annotation === '') value = { float: datapoint.sample('value'), hasAnnotation };
  else {
    // M3's clients send any number with it.
    datapoint.sample('value');
    value = { wire: datapoint.base64('annotation') };
  }
  datapoint.end();
  return { nanos, value };
}
