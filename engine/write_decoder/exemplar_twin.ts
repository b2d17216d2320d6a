/** Exemplars of remote write, read at leisure: the plain twin of engine/write_decoder/kernel/remote_write/exemplars.ts. */
import { isUtf8 } from 'node:buffer';
import {
  exemplarLabelsMax,
  exemplarNanos,
  exemplarRunesMax,
  valueOfExemplar,
} from '../typed/exemplar.ts';
import { exemplarProblem } from './core.ts';
import { type Label, parseLabel } from './label_twin.ts';
import { Fields, type Range, wireBytes, wireFixed64, wireVarint } from './wire_fields.ts';

/** One that may be stored, or why not. */
export interface WireExemplar {
  /** 0 when it is bad. */
  readonly nanos: bigint;
  /** Empty when it is bad. */
  readonly value: Uint8Array;
  /** `exemplarProblem`, 0 for none. */
  readonly problem: number;
}

const millisMax = 9_223_372_036_853n;
const runeBytesMax = 4;

/**
 * @param symbols of version 2; null in version 1, where labels are messages
 * @throws {Malformed}
 */
export function readExemplar(
  bytes: Uint8Array,
  [start, end]: Range,
  symbols: readonly Uint8Array[] | null,
): WireExemplar {
  const texts: (Uint8Array | null)[] = [];
  let bits = 0n;
  let millis = 0n;
  const fields = new Fields(bytes, start, end);
  while (fields.next()) {
    if (fields.number === 1 && symbols === null) {
      fields.expect(wireBytes);
      const { name, value } = parseLabel(bytes, fields.range());
      texts.push(name, value);
    } else if (fields.number === 1) {
      const take = (from: Fields): void => {
        texts.push(symbols![Number(from.varint())] ?? null);
      };
      if (fields.wireType === wireVarint) take(fields);
      else {
        fields.expect(wireBytes);
        const packed = new Fields(bytes, ...fields.range());
        while (!packed.isAtEnd) take(packed);
      }
    } else if (fields.number === 2) {
      fields.expect(wireFixed64);
      bits = fields.fixed64();
    } else if (fields.number === 3) {
      fields.expect(wireVarint);
      millis = BigInt.asIntN(64, fields.varint());
    } else fields.skip();
  }
  const problem = problemOf(texts, millis);
  if (problem !== 0) return { nanos: 0n, value: new Uint8Array(0), problem };
  const labels: Label[] = [];
  for (let i = 0; i < texts.length; i += 2) labels.push({ name: texts[i]!, value: texts[i + 1]! });
  labels.sort((a, b) => Buffer.compare(a.name, b.name) || Buffer.compare(a.value, b.value));
  const value = valueOfExemplar(bits, labels);
  return { nanos: exemplarNanos(millis, value), value, problem: 0 };
}

function problemOf(texts: readonly (Uint8Array | null)[], millis: bigint): number {
  if (texts.includes(null) || texts.length % 2 === 1) return exemplarProblem.badReference;
  if (texts.length > 2 * exemplarLabelsMax) return exemplarProblem.tooLong;
  const length = texts.reduce((sum, text) => sum + text!.length, 0);
  if (length > exemplarRunesMax * runeBytesMax) return exemplarProblem.tooLong;
  if (!texts.every((text) => isUtf8(text!))) return exemplarProblem.notUtf8;
  const runes = texts.reduce(
    (sum, text) => sum + Array.from(Buffer.from(text!).toString()).length,
    0,
  );
  if (runes > exemplarRunesMax) return exemplarProblem.tooLong;
  return millis > millisMax || millis < -millisMax ? exemplarProblem.badTime : 0;
}
