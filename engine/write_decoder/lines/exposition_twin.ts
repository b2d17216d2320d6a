/**
 * The plain twin of the kernel's reader of Prometheus' text and OpenMetrics (engine/write_decoder/kernel/lines/exposition.ts).
 */
import { isUtf8 } from 'node:buffer';
import { tagsBytesMax, tagsCountMax } from '#lib/tags.ts';
import { canonicalTags } from '../label_twin.ts';
import {
  badLabelEnd,
  badLineEnd,
  badMetricNameEnd,
  badNumber,
  badTime,
  metricNameTwice,
  noExemplar,
  noLabelEquals,
  noLabelName,
  noLabelValue,
  noMetricName,
  noQuote,
  notUtf8,
  noTime,
  noValue,
  numberOutOfRange,
  tagsTooLong,
  tagTwice,
  timeOutOfRange,
  tooManyTags,
} from './layout.ts';
import { numberOf } from './decimal_twin.ts';
import type { LineTwin, TwinLine } from './line_twin.ts';
import type { LineProblem } from './problems.ts';

/** Bytes that are counted for a label beside its texts. */
const labelOverhead = 12;
const int64Max = 2n ** 63n - 1n;
const nanosPerMilli = 1_000_000n;
/** Beyond it a time is out of range, or 0. */
const powerMax = 1000;

interface Label {
  readonly name: string;
  readonly value: string;
}

/** A bad line. */
class Bad extends Error {
  readonly reason: number;
  readonly at: number;

  constructor(reason: number, at: number) {
    super();
    this.reason = reason;
    this.at = at;
  }
}

export class ExpositionTwin implements LineTwin {
  readonly blanks: RegExp = /^[ \t\r\n]*/;
  readonly comment: string | null = '#';
  readonly #text: string;
  readonly #nowNanos: bigint;
  readonly #isOpenMetrics: boolean;
  #at = 0;

  /** @param text bytes as characters */
  constructor(text: string, nowNanos: bigint, isOpenMetrics: boolean) {
    this.#text = text;
    this.#nowNanos = nowNanos;
    this.#isOpenMetrics = isOpenMetrics;
  }

  line(lineAt: number): TwinLine | LineProblem {
    this.#at = lineAt;
    try {
      return this.#line();
    } catch (error) {
      if (!(error instanceof Bad)) throw error;
      return { lineAt, at: error.at, reason: error.reason };
    }
  }

  #line(): TwinLine {
    const lineAt = this.#at;
    let metric = this.#take(/[a-zA-Z0-9_:]*/y);
    if (/^\d/.test(metric)) throw new Bad(noMetricName, lineAt);
    const hasSpace = this.#take(/[ \t]*/y) !== '';
    const tags: Label[] = [];
    if (this.#is('{')) {
      const quoted = this.#labels(tags, metric, false);
      metric = quoted ?? metric;
      this.#take(/[ \t]*/y);
    } else if (metric !== '' && !hasSpace && !this.#isEnd()) this.#fail(badMetricNameEnd);
    if (metric === '') throw new Bad(noMetricName, lineAt);
    tags.push({ name: '__name__', value: metric });
    const tagBytes = tags.reduce(
      (sum, { name, value }) => sum + name.length + labelOverhead + value.length,
      0,
    );
    if (tagBytes > tagsBytesMax) throw new Bad(tagsTooLong, lineAt);
    if (new Set(tags.map(({ name }) => name)).size < tags.length) throw new Bad(tagTwice, lineAt);

    const value = this.#value();
    const nanos = this.#time();
    if (this.#isOpenMetrics && this.#is('#')) {
      this.#take(/#[ \t]*/y);
      if (!this.#is('{')) this.#fail(noExemplar);
      this.#labels([], '', true);
      this.#take(/[ \t]*/y);
      this.#value();
      this.#time();
    }
    if (!this.#isEnd()) this.#fail(badLineEnd);
    const labels = tags.map((tag) => ({ name: bytesOf(tag.name), value: bytesOf(tag.value) }));
    const row = { tags: canonicalTags(labels)!, isPath: false, nanos, value };
    return { lineAt, endAt: this.#at, outcome: { rows: [row], tagBytes } };
  }

  /** Adds labels that have a value. @returns the metric's name, if it stands among them */
  #labels(tags: Label[], metric: string, isOfExemplar: boolean): string | null {
    let quotedMetric: string | null = null;
    this.#at++;
    while (true) {
      this.#take(/[ \t]*/y);
      if (this.#is('}')) break;
      const keyAt = this.#at;
      const isQuoted = this.#is('"');
      const name = isQuoted ? this.#quoted() : this.#take(/(?:[a-zA-Z_][a-zA-Z0-9_]*)?/y);
      if (name === '') throw new Bad(noLabelName, keyAt);
      this.#take(/[ \t]*/y);
      if (this.#is('=')) {
        this.#take(/=[ \t]*/y);
        if (!this.#is('"')) this.#fail(noLabelValue);
        const value = this.#quoted();
        if (value !== '' && !isOfExemplar) {
          if (tags.length === tagsCountMax - 1) throw new Bad(tooManyTags, keyAt);
          tags.push({ name, value });
        }
        this.#take(/[ \t]*/y);
      } else {
        if (isOfExemplar || !isQuoted || !(this.#is(',') || this.#is('}'))) {
          this.#fail(noLabelEquals);
        }
        if (metric !== '' || quotedMetric !== null) throw new Bad(metricNameTwice, keyAt);
        quotedMetric = name;
      }
      if (this.#is(',')) this.#at++;
      else if (!this.#is('}')) this.#fail(badLabelEnd);
    }
    this.#at++;
    return quotedMetric;
  }

  #quoted(): string {
    const quoteAt = this.#at;
    const quoted = this.#take(/"(?:[^"\\\n]|\\[^\n])*"/y);
    if (quoted === '') throw new Bad(noQuote, quoteAt);
    const text = quoted
      .slice(1, -1)
      .replace(/\\(["\\n])/g, (_, escaped) => (escaped === 'n' ? '\n' : escaped));
    if (!isUtf8(bytesOf(text))) throw new Bad(notUtf8, quoteAt + 1);
    return text;
  }

  #value(): number {
    const valueAt = this.#at;
    if (this.#isEnd()) this.#fail(noValue);
    const value = numberOf(this.#take(/[^ \t\r\n]*/y));
    if (value === null) throw new Bad(badNumber, valueAt);
    if (value === 'over') throw new Bad(numberOutOfRange, valueAt);
    this.#take(/[ \t]*/y);
    return value;
  }

  #time(): bigint {
    if (this.#isEnd() || (this.#isOpenMetrics && this.#is('#'))) return this.#nowNanos;
    const timeAt = this.#at;
    const nanos = this.#isOpenMetrics ? this.#seconds() : this.#millis();
    if (nanos > int64Max || nanos < -int64Max) throw new Bad(timeOutOfRange, timeAt);
    this.#take(/[ \t]*/y);
    return nanos;
  }

  #millis(): bigint {
    const digits = this.#take(/-?\d+/y);
    if (digits === '') this.#fail(badTime);
    return BigInt(digits) * nanosPerMilli;
  }

  #seconds(): bigint {
    const timeAt = this.#at;
    const text = this.#take(/[-+]?(?:\d+(?:\.\d*)?|\.\d+)/y);
    const exponent = text === '' ? '' : this.#take(/[eE][-+]?\d+/y);
    if (text === '' || (exponent === '' && /[eE]/.test(this.#text[this.#at] ?? ''))) {
      throw new Bad(noTime, timeAt);
    }
    const [whole = '', fraction = ''] = text.replace(/^[-+]/, '').split('.');
    const power = Number(exponent.slice(1)) - fraction.length + 9;
    const size = BigInt(whole + fraction);
    if (size === 0n) return 0n;
    let nanos: bigint;
    if (power > powerMax) nanos = int64Max + 1n;
    else if (power >= 0) nanos = size * 10n ** BigInt(power);
    else nanos = BigInt(String(size).slice(0, power) || '0');
    return text.startsWith('-') ? -nanos : nanos;
  }

  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const taken = pattern.exec(this.#text)?.[0] ?? '';
    this.#at += taken.length;
    return taken;
  }

  #is(character: string): boolean {
    return this.#text[this.#at] === character;
  }

  #isEnd(): boolean {
    return this.#at >= this.#text.length || this.#is('\r') || this.#is('\n');
  }

  #fail(reason: number): never {
    throw new Bad(reason, this.#at);
  }
}

function bytesOf(text: string): Uint8Array {
  return Buffer.from(text, 'latin1');
}
