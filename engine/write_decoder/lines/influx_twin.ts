/**
 * The plain twin of the kernel's reader of Influx's line protocol (engine/write_decoder/kernel/lines/influx.ts): one line after
 * the other, with everything that stands in it.
 */
import { isUtf8 } from 'node:buffer';
import {
  badFieldEnd,
  badLineEnd,
  badNumber,
  badTime,
  noFieldEquals,
  noFieldKey,
  noFieldValue,
  noFields,
  noMeasurement,
  noQuote,
  noTagEquals,
  noTagKey,
  noTagValue,
  notUtf8,
  lineTextBytesMax,
  numberOutOfRange,
  tagTwice,
  tagsTooLong,
  timeOutOfRange,
  tooManyTags,
  tooMuchText,
} from './layout.ts';
import { tagsBytesMax, tagsCountMax } from '#lib/tags.ts';
import { canonicalTags } from '../label_twin.ts';
import { decimalOf } from './decimal_twin.ts';
import type { LineTwin, TwinLine } from './line_twin.ts';
import type { LineProblem } from './problems.ts';

export type InfluxValue =
  | { readonly kind: 'float'; readonly value: number }
  | { readonly kind: 'int' | 'uint'; readonly value: bigint }
  | { readonly kind: 'boolean'; readonly value: boolean }
  | { readonly kind: 'text' };

export interface InfluxLine {
  readonly lineAt: number;
  /** Where it ends. */
  readonly endAt: number;
  readonly measurement: string;
  readonly tags: readonly { readonly key: string; readonly value: string }[];
  readonly fields: readonly { readonly key: string; readonly value: InfluxValue }[];
  /** In the unit of the text; null when the line has none. */
  readonly time: bigint | null;
}

const int64Max = 2n ** 63n - 1n;

export class InfluxTwin implements LineTwin {
  readonly blanks: RegExp = /^[ \r\n]*/;
  readonly comment: string | null = '#';
  readonly #text: string;
  readonly #isLast: boolean;
  readonly #unitNanos: bigint;
  readonly #nowNanos: bigint;

  /** @param text bytes as characters */
  constructor(text: string, isLast: boolean, unitNanos: bigint, nowNanos: bigint) {
    this.#text = text;
    this.#isLast = isLast;
    this.#unitNanos = unitNanos;
    this.#nowNanos = nowNanos;
  }

  line(lineAt: number): (InfluxLine & TwinLine) | LineProblem | null {
    const text = this.#text;
    let at = lineAt;
    const bad = (reason: number, where = at): LineProblem => ({ lineAt, at: where, reason });
    /** Characters up to one of those, where backslashes go before some. */
    const take = (stop: RegExp, escaped: string): string => {
      let taken = '';
      for (; at < text.length; at++) {
        const next = text[at + 1];
        if (text[at] === '\\') {
          if (next !== undefined && escaped.includes(next)) at++;
        } else if (stop.test(text[at]!)) break;
        taken += text[at]!;
      }
      return taken;
    };
    const isEnd = (place = at): boolean => place >= text.length || /[\r\n]/.test(text[place]!);
    const endsValue = (place: number): boolean => isEnd(place) || /[, ]/.test(text[place]!);
    const spaces = (): void => {
      while (text[at] === ' ') at++;
    };

    // oxlint-disable-next-line no-control-regex -- they end names
    const measurementStop = /[\u0000-\u0020,\u007f]/;
    // oxlint-disable-next-line no-control-regex -- they end keys
    const keyStop = /[\u0000-\u0020,=\u007f]/;
    const measurement = take(measurementStop, ' ,');
    if (measurement === '') return bad(noMeasurement);
    if (!isUtf8(bytesOf(measurement))) return bad(notUtf8);
    const tags: { key: string; value: string }[] = [];
    while (text[at] === ',') {
      at++;
      const keyAt = at;
      const key = take(keyStop, ' ,=');
      if (key === '') return bad(noTagKey);
      if (!isUtf8(bytesOf(key))) return bad(notUtf8);
      if (text[at] !== '=') return bad(noTagEquals);
      if (tags.length === tagsCountMax - 1) return bad(tooManyTags, keyAt);
      at++;
      const value = take(keyStop, ' ,=');
      if (value === '') return bad(noTagValue);
      if (!isUtf8(bytesOf(value))) return bad(notUtf8);
      tags.push({ key, value });
    }
    if (text[at] !== ' ') return bad(noFields);
    spaces();

    const fields: { key: string; value: InfluxValue }[] = [];
    while (true) {
      const key = take(keyStop, ' ,=');
      if (key === '') return bad(noFieldKey);
      if (!isUtf8(bytesOf(key))) return bad(notUtf8);
      if (text[at] !== '=') return bad(noFieldEquals);
      at++;
      const rest = text.slice(at);
      if (/^[-.\d]/.test(rest)) {
        const token = /^[^, \r\n]*/.exec(rest)![0];
        const value = numberOf(token);
        if (typeof value === 'number') return bad(value);
        fields.push({ key, value });
        at += token.length;
      } else if (rest.startsWith('"')) {
        let length = 1;
        while (length < rest.length && rest[length] !== '"') {
          length += rest[length] === '\\' && /["\\]/.test(rest[length + 1] ?? '') ? 2 : 1;
        }
        if (length >= rest.length) return this.#isLast ? bad(noQuote) : null;
        at += length + 1;
        fields.push({ key, value: { kind: 'text' } });
      } else {
        const word = /^(?:true|True|TRUE|t|T|false|False|FALSE|f|F)/.exec(rest)?.[0] ?? '';
        if (word === '' || !endsValue(at + word.length)) return bad(noFieldValue);
        fields.push({ key, value: { kind: 'boolean', value: /^t/i.test(word) } });
        at += word.length;
      }
      if (text[at] === ',') at++;
      else if (text[at] === ' ' || isEnd()) break;
      else return bad(badFieldEnd);
    }

    spaces();
    let time: bigint | null = null;
    if (!isEnd()) {
      const digits = /^-?\d+/.exec(text.slice(at))?.[0];
      if (digits === undefined) return bad(badTime);
      time = BigInt(digits);
      const timeMax = int64Max / this.#unitNanos;
      if (time > timeMax || time < -timeMax) return bad(timeOutOfRange);
      at += digits.length;
      spaces();
      if (!isEnd()) return bad(badLineEnd);
    }
    const line = { lineAt, endAt: at, measurement, tags, fields, time };
    return { ...line, outcome: rowsOf(line, this.#unitNanos, this.#nowNanos) };
  }
}

/** A number, or what is wrong with its text. */
function numberOf(token: string): InfluxValue | number {
  if (/^-?\d+i$/.test(token)) {
    const value = BigInt(token.slice(0, -1));
    const isIn = value <= int64Max && value >= -int64Max - 1n;
    return isIn ? { kind: 'int', value } : numberOutOfRange;
  }
  if (/^\d+u$/.test(token)) {
    const value = BigInt(token.slice(0, -1));
    return value < 2n ** 64n ? { kind: 'uint', value } : numberOutOfRange;
  }
  const value = decimalOf(token);
  if (value === null) return badNumber;
  return Number.isFinite(value) ? { kind: 'float', value } : numberOutOfRange;
}

/** Bytes that are counted for a label beside its texts. */
const labelOverhead = 12;
const metricName = '__name__';

function rowsOf(
  { measurement, tags, fields, time }: InfluxLine,
  unitNanos: bigint,
  nowNanos: bigint,
): TwinLine['outcome'] {
  const numbers = fields.filter(({ value }) => value.kind !== 'text');
  if (numbers.length === 0) return { rows: [], tagBytes: 0 };
  const longest = Math.max(...fields.map(({ key }) => key.length));
  let tagBytes = metricName.length + labelOverhead + measurement.length + 1 + longest;
  for (const { key, value } of tags) tagBytes += key.length + labelOverhead + value.length;
  if (tagBytes > tagsBytesMax) return tagsTooLong;
  if (tagBytes * numbers.length > lineTextBytesMax) return tooMuchText;
  const names = [metricName, ...tags.map(({ key }) => nameOf(key, /[^a-zA-Z0-9_]/g))];
  if (new Set(names).size < names.length) return tagTwice;
  const metric = nameOf(measurement, /[^a-zA-Z0-9_:]/g);
  const rows = numbers.map(({ key, value }) => {
    const name = `${metric}_${key.replace(/[^a-zA-Z0-9_:]/g, '_')}`;
    const texts = [name, ...tags.map((tag) => tag.value)];
    const labels = texts.map((text, i) => ({ name: bytesOf(names[i]!), value: bytesOf(text) }));
    return {
      tags: canonicalTags(labels)!,
      isPath: false,
      nanos: time === null ? nowNanos : time * unitNanos,
      value: value.kind === 'text' ? 0 : Number(value.value),
    };
  });
  return { rows, tagBytes };
}

function nameOf(text: string, not: RegExp): string {
  return text.replace(not, '_').replace(/^\d/, '_');
}

function bytesOf(text: string): Uint8Array {
  return Buffer.from(text, 'latin1');
}
