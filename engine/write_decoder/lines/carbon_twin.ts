/**
 * The plain twin of the kernel's reader of Carbon's plaintext (engine/write_decoder/kernel/lines/carbon.ts).
 */
import { isUtf8 } from 'node:buffer';
import { tagsBytesMax, tagsCountMax } from '#lib/tags.ts';
import { canonicalTags } from '../label_twin.ts';
import {
  badLineEnd,
  badNumber,
  badPathEnd,
  badTime,
  emptyNode,
  noPath,
  noTagEquals,
  noTagKey,
  noTagValue,
  noTime,
  noValue,
  notUtf8,
  numberOutOfRange,
  pathTooLong,
  tagsTooLong,
  tagTwice,
  timeOutOfRange,
  tooManyTags,
  valueIsNan,
} from './layout.ts';
import { numberOf } from './decimal_twin.ts';
import type { LineRow, LineTwin, TwinLine } from './line_twin.ts';
import type { LineProblem } from './problems.ts';

/** Bytes that are counted for a node, or a label, beside its texts. */
const nodeOverhead = 13;
const labelOverhead = 12;
const secondsMax = (2n ** 63n - 1n) / 1_000_000_000n - 1n;

// oxlint-disable-next-line no-control-regex -- they end paths
const pathStop = /[\u0000-\u0020;\u007f]/;

// oxlint-disable-next-line no-control-regex -- as well
const keyStop = /[\u0000-\u0020;=\u007f]/;

export class CarbonTwin implements LineTwin {
  readonly #text: string;
  readonly #nowNanos: bigint;
  readonly #cleansUp: boolean;

  /** @param text bytes as characters */
  constructor(text: string, nowNanos: bigint, cleansUp: boolean) {
    this.#text = text;
    this.#nowNanos = nowNanos;
    this.#cleansUp = cleansUp;
  }

  readonly blanks: RegExp = /^[ \t\r\n]*/;
  readonly comment: string | null = null;

  line(lineAt: number): TwinLine | LineProblem {
    const text = this.#text;
    let at = lineAt;
    const bad = (reason: number, where = at): LineProblem => ({ lineAt, at: where, reason });
    const isEnd = (): boolean => at >= text.length || /[\r\n]/.test(text[at]!);
    const isSpace = (): boolean => text[at] === ' ' || text[at] === '\t';
    const spaces = (): void => {
      while (isSpace()) at++;
    };
    const take = (stop: RegExp): string => {
      const start = at;
      while (at < text.length && !stop.test(text[at]!)) at++;
      return text.slice(start, at);
    };

    let path = take(pathStop);
    if (path === '') return bad(text[at] === ';' ? noPath : badPathEnd);
    if (!isUtf8(bytesOf(path))) return bad(notUtf8, lineAt);
    const tags: { name: string; value: string }[] = [];
    let tagBytes: number;
    const isTagged = text[at] === ';';
    if (isTagged) {
      tagBytes = '__name__'.length + labelOverhead + path.length;
      while (text[at] === ';') {
        at++;
        const keyAt = at;
        const key = take(keyStop);
        if (!isUtf8(bytesOf(key))) return bad(notUtf8, keyAt);
        if (key === '') return bad(noTagKey);
        if (text[at] !== '=') return bad(noTagEquals);
        if (tags.length === tagsCountMax - 1) return bad(tooManyTags, keyAt);
        at++;
        const valueAt = at;
        const value = take(pathStop);
        if (!isUtf8(bytesOf(value))) return bad(notUtf8, valueAt);
        if (value === '') return bad(noTagValue);
        if (key === 'name') continue;
        tags.push({ name: key.replace(/[^a-zA-Z0-9_]/g, '_').replace(/^\d/, '_'), value });
        tagBytes += key.length + labelOverhead + value.length;
      }
      if (!isSpace()) return bad(isEnd() ? noValue : badPathEnd);
      if (tagBytes > tagsBytesMax) return bad(tagsTooLong, lineAt);
      const names = ['__name__', ...tags.map(({ name }) => name)];
      if (new Set(names).size < names.length) return bad(tagTwice, lineAt);
      tags.push({ name: '__name__', value: path });
    } else {
      if (!isSpace()) return bad(isEnd() ? noValue : badPathEnd);
      if (this.#cleansUp) {
        path = cleanedUp(path);
        if (path === '') return bad(noPath, lineAt);
      } else {
        const emptyAt = path.startsWith('.') ? 0 : path.indexOf('..') + 1;
        if (path.startsWith('.') || emptyAt > 0) return bad(emptyNode, lineAt + emptyAt);
        path = path.replace(/\.$/, '');
      }
      const nodes = path.split('.');
      tagBytes = path.length + nodes.length * nodeOverhead;
      if (nodes.length > tagsCountMax || tagBytes > tagsBytesMax) return bad(pathTooLong, lineAt);
      for (const [i, value] of nodes.entries()) tags.push({ name: `__g${i}__`, value });
    }
    spaces();

    const valueAt = at;
    if (isEnd()) return bad(noValue);
    const token = /^[^ \t\r\n]*/.exec(text.slice(at))![0];
    const value = numberOf(token);
    at += token.length;
    if (value === null) return bad(badNumber, valueAt);
    if (isEnd()) return bad(noTime);
    if (value === 'over') return bad(numberOutOfRange, valueAt);
    if (Number.isNaN(value)) return bad(valueIsNan, valueAt);
    spaces();

    if (isEnd()) return bad(noTime);
    const [, digits, fraction = ''] = /^(-?\d+)(?:\.(\d*))?/.exec(text.slice(at)) ?? [];
    if (digits === undefined) return bad(badTime);
    const seconds = BigInt(digits);
    if (seconds > secondsMax || seconds < -secondsMax) return bad(timeOutOfRange);
    const rest = /^-?\d+(?:\.\d*)?/.exec(text.slice(at))![0];
    at += rest.length;
    spaces();
    if (!isEnd()) return bad(badLineEnd);
    const part = BigInt(fraction.slice(0, 9).padEnd(9, '0'));
    const isNegative = digits.startsWith('-');
    const nanos =
      isNegative && seconds === -1n && part === 0n
        ? this.#nowNanos
        : seconds * 1_000_000_000n + (isNegative ? -part : part);
    const labels = tags.map((tag) => ({ name: bytesOf(tag.name), value: bytesOf(tag.value) }));
    const row: LineRow = { tags: canonicalTags(labels)!, isPath: !isTagged, nanos, value };
    return { lineAt, endAt: at, outcome: { rows: [row], tagBytes } };
  }
}

function cleanedUp(path: string): string {
  return path
    .replace(/^\.+/, '')
    .replace(/\.+/g, '.')
    .replace(/_?[^-a-zA-Z0-9_.:#]+/g, '_')
    .replace(/\.+$/, '');
}

function bytesOf(text: string): Uint8Array {
  return Buffer.from(text, 'latin1');
}
