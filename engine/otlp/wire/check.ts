/** Whether a body is whole, down to its data points: what is wrong within one of these is wrong with that one alone. */
import { badRequest } from '#lib/errors.ts';
import * as layout from './layout.ts';
import { malformed, Wire, wireType } from './wire.ts';

/** Resources, scopes, metrics, points and other fields beside them: lists of them are looked through at once. */
const fieldsMax: number = 1 << 19;
/** Fields between two looks at the clock, and about what one takes in units of work. */
const fieldsAtOnce = 4096;
const fieldUnits = 4;

/** By depth: fields that hold messages of the next one. */
const numbers: readonly (readonly number[])[] = [
  [1],
  [layout.resourceMetrics.scopeMetrics],
  [layout.scopeMetrics.metrics],
  layout.kinds,
];
/** Of resources, scopes and metrics; of requests and data nothing else is looked at. */
const types: readonly (Uint8Array | null)[] = [
  null,
  layout.resourceMetricsTypes,
  layout.scopeMetricsTypes,
  layout.metricTypes,
  layout.dataTypes,
];

/**
 * @param pause is awaited now and then, with units of work
 * @throws {TsdbError} BAD_REQUEST when it is malformed, or has too many of them
 */
export async function check(
  body: Uint8Array,
  pause: (units: number) => Promise<void>,
): Promise<void> {
  const wire = new Wire(body);
  const ends = new Int32Array(types.length);
  ends[0] = body.length;
  let depth = 0;
  for (let at = 0, fields = 1; ; fields++) {
    while (at === ends[depth]!) {
      if (depth === 0) return;
      depth -= 1;
    }
    if (fields > fieldsMax) {
      throw badRequest(`cannot read OTLP body: more than ${fieldsMax} metrics and points`);
    }
    const end = ends[depth]!;
    const key = wire.varint(at, end);
    const number = Math.floor(key / 8);
    const type = key % 8;
    const expected = types[depth]?.[number];
    if (number === 0 || (expected !== undefined && expected !== type && expected <= 5)) {
      throw malformed();
    }
    if (depth < numbers.length && numbers[depth]!.includes(number)) {
      if (type !== wireType.bytes) throw malformed();
      const length = wire.length(wire.at, end);
      at = wire.at;
      depth += 1;
      ends[depth] = at + length;
    } else at = wire.skip(wire.at, end, type);
    if (fields % fieldsAtOnce === 0) await pause(fieldsAtOnce * fieldUnits);
  }
}
