/** The values of promqltest scripts: numbers, native histograms, gaps and sequences of them. */
import { customSchema } from '#engine/typed/histogram.ts';
import { counterHint, FloatHistogram } from '#engine/histograms/float_histogram.ts';

/** Bits of a number, a histogram, or null for "no sample". */
export type ScriptValue = bigint | ScriptHistogram | null;

export interface ScriptHistogram {
  readonly histogram: FloatHistogram;
  /** Whether its text has a hint: else any will do. */
  readonly hasHint: boolean;
}

export const staleBits = 0x7ff0000000000002n;
const converter = new Float64Array(1);
const converterBits = new BigUint64Array(converter.buffer);

export function bitsOf(value: number): bigint {
  converter[0] = value;
  return converterBits[0]!;
}

export function parseMillis(text: string): number {
  const units: Record<string, number> = {
    ms: 1,
    s: 1000,
    m: 60_000,
    h: 3_600_000,
    d: 86_400_000,
    w: 604_800_000,
    y: 31_536_000_000,
  };
  const sign = text.startsWith('-') ? -1 : 1;
  const size = text.replace(/^[+-]/, '');
  if (/^[\d.]+$/.test(size)) return sign * Math.round(Number(size) * 1000);
  let total = 0;
  for (const [, count, unit] of size.matchAll(/(\d+)(ms|[smhdwy])/g)) {
    total += Number(count) * units[unit!]!;
  }
  return sign * total;
}

export function parseNumber(text: string): number {
  const lower = text.toLowerCase();
  if (/^[+-]?inf$/.test(lower)) return lower.startsWith('-') ? -Infinity : Infinity;
  if (/^[+-]?nan$/.test(lower)) return NaN;
  const value = Number(text);
  if (Number.isNaN(value)) throw new Error(`not a number: ${text}`);
  return value;
}

const numberPattern = String.raw`[+-]?(?:0x[0-9a-f]+|\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|inf|nan)`;
const sequencePattern = new RegExp(`^(${numberPattern})(?:([+-])(${numberPattern}))?x(\\d+)$`, 'i');
const wordPattern = /\{\{[^}]*\}\}(?:[+-]\{\{[^}]*\}\})?(?:x\d+)?|\S+/g;
const histogramPattern = /^(\{\{[^}]*\}\})(?:([+-])(\{\{[^}]*\}\}))?(?:x(\d+))?$/;

/** Expands `1+2x3`, `5x2`, `_x3`, `{{count:3}}+{{count:1}}x4` and the like. */
export function parseValues(text: string): ScriptValue[] {
  return (text.match(wordPattern) ?? []).flatMap(valuesOfWord);
}

function valuesOfWord(word: string): ScriptValue[] {
  const gap = /^_(?:x(\d+))?$/.exec(word);
  if (gap !== null) return Array.from({ length: Number(gap[1] ?? 1) }, () => null);
  if (word === 'stale') return [staleBits];
  const histograms = histogramPattern.exec(word);
  if (histograms !== null) {
    const [, first, sign, change, times] = histograms;
    return histogramSequence(first!, sign ?? null, change ?? null, Number(times ?? 0));
  }
  const sequence = sequencePattern.exec(word);
  if (sequence === null) return [bitsOf(parseNumber(word))];
  const delta = sequence[3] === undefined ? 0 : parseNumber(sequence[3]);
  const step = sequence[2] === '-' ? -delta : delta;
  const values: ScriptValue[] = [];
  let value = parseNumber(sequence[1]!);
  for (let i = 0; i <= Number(sequence[4]); i++) {
    values.push(bitsOf(value));
    value += step;
  }
  return values;
}

function histogramSequence(
  first: string,
  sign: string | null,
  change: string | null,
  times: number,
): ScriptValue[] {
  const { histogram, hasHint } = parseHistogram(first);
  const values: ScriptValue[] = [{ histogram, hasHint }];
  const step = change === null ? null : parseHistogram(change).histogram;
  let last = histogram;
  for (let i = 0; i < times; i++) {
    const next = last.copy();
    if (step !== null && sign === '+') next.add(step);
    if (step !== null && sign === '-') next.subtract(step);
    values.push({ histogram: next, hasHint });
    last = next;
  }
  return values;
}

const hintsByName: Readonly<Record<string, FloatHistogram['hint']>> = {
  unknown: counterHint.unknown,
  reset: counterHint.reset,
  not_reset: counterHint.notReset,
  gauge: counterHint.gauge,
};

/** `{{schema:1 sum:5 count:4 buckets:[1 2 1] offset:-1}}`. */
function parseHistogram(text: string): ScriptHistogram {
  const fields = new Map<string, string>();
  for (const [, name, list, plain] of text
    .slice(2, -2)
    .matchAll(/([a-z_]+):(?:\[([^\]]*)\]|(\S+))/g)) {
    fields.set(name!, list ?? plain!);
  }
  const number = (name: string): number => parseNumber(fields.get(name) ?? '0');
  const numbers = (name: string): number[] =>
    (fields.get(name) ?? '')
      .split(/\s+/)
      .filter((part) => part !== '')
      .map(parseNumber);
  const side = (bucketsName: string, offsetName: string): FloatHistogram['positive'] => {
    const counts = Float64Array.from(numbers(bucketsName));
    // Offsets are of spans, whose bucket 0 is the one that ends at 1: its index is 0.
    const offset = number(offsetName);
    return { indexes: Int32Array.from(counts, (_, i) => offset + i), counts };
  };
  const hint = fields.get('counter_reset_hint');
  const schema = number('schema');
  return {
    hasHint: hint !== undefined,
    histogram: new FloatHistogram({
      hint: hint === undefined ? counterHint.unknown : hintsByName[hint]!,
      schema,
      zeroThreshold: number('z_bucket_w'),
      zeroCount: number('z_bucket'),
      count: number('count'),
      sum: number('sum'),
      customBounds: Float64Array.from(schema === customSchema ? numbers('custom_values') : []),
      positive: side('buckets', 'offset'),
      negative: side('n_buckets', 'n_offset'),
    }),
  };
}
