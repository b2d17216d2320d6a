/** Reader of promqltest scripts: text → commands. */
import type { Tag } from '#lib/tags.ts';

/** Bits of a value, or null for "no sample". */
export type ValueBits = bigint | null;

export interface SeriesLine {
  readonly tags: readonly Tag[];
  readonly values: readonly ValueBits[];
}

export interface TextCheck {
  readonly message: string | null;
  readonly regexp: RegExp | null;
}

export interface Expectation {
  fail: TextCheck | null;
  ordered: boolean;
  warn: TextCheck[];
  info: TextCheck[];
  noWarn: boolean;
  noInfo: boolean;
  text: string | null;
  rangeVector: { startMillis: number; stepMillis: number } | null;
  scalar: bigint | null;
  readonly series: SeriesLine[];
}

export type Command =
  | { readonly kind: 'clear' }
  | { readonly kind: 'load'; readonly stepMillis: number; readonly series: readonly SeriesLine[] }
  | {
      readonly kind: 'eval';
      readonly line: number;
      readonly expr: string;
      /** Of an instant query both are the time and the step is 0. */
      readonly startMillis: number;
      readonly endMillis: number;
      readonly stepMillis: number;
      readonly expect: Expectation;
    };

const staleBits = 0x7ff0000000000002n;
const converter = new Float64Array(1);
const converterBits = new BigUint64Array(converter.buffer);

function bitsOf(value: number): bigint {
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

function parseNumber(text: string): number {
  const lower = text.toLowerCase();
  if (/^[+-]?inf$/.test(lower)) return lower.startsWith('-') ? -Infinity : Infinity;
  if (/^[+-]?nan$/.test(lower)) return NaN;
  const value = Number(text);
  if (Number.isNaN(value)) throw new Error(`not a number: ${text}`);
  return value;
}

const numberPattern = String.raw`[+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|inf|nan)`;
const sequencePattern = new RegExp(`^(${numberPattern})(?:([+-])(${numberPattern}))?x(\\d+)$`, 'i');

/** Expands `1+2x3`, `5x2`, `_x3` and the like. */
export function parseValues(text: string): ValueBits[] {
  const values: ValueBits[] = [];
  for (const word of text.split(/\s+/).filter((part) => part !== '')) {
    const gap = /^_(?:x(\d+))?$/.exec(word);
    if (gap !== null) {
      for (let i = 0; i < Number(gap[1] ?? 1); i++) values.push(null);
      continue;
    }
    if (word === 'stale') {
      values.push(staleBits);
      continue;
    }
    const sequence = sequencePattern.exec(word);
    if (sequence === null) {
      values.push(bitsOf(parseNumber(word)));
      continue;
    }
    const delta = sequence[3] === undefined ? 0 : parseNumber(sequence[3]);
    const step = sequence[2] === '-' ? -delta : delta;
    let value = parseNumber(sequence[1]!);
    for (let i = 0; i <= Number(sequence[4]); i++) {
      values.push(bitsOf(value));
      value += step;
    }
  }
  return values;
}

/** `name{a="b"} values`; null for a line with native histograms. */
export function parseSeriesLine(line: string): SeriesLine | null {
  if (line.includes('{{')) return null;
  const match =
    /^([a-zA-Z_:][a-zA-Z0-9_:]*)?\s*(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?\s*(.*)$/.exec(line);
  if (match === null) throw new Error(`not a series: ${line}`);
  const tags: Tag[] = [];
  if (match[1] !== undefined) tags.push({ name: '__name__', value: match[1] });
  const pairs =
    /\s*(?:([a-zA-Z_][a-zA-Z0-9_]*|"(?:[^"\\]|\\.)*")\s*=\s*)?("(?:[^"\\]|\\.)*")\s*,?/g;
  for (const [, name, value] of (match[2] ?? '').matchAll(pairs)) {
    const label = name === undefined ? '__name__' : name.startsWith('"') ? unquote(name) : name;
    tags.push({ name: label, value: unquote(value!) });
  }
  return {
    tags: tags.filter(({ value }) => value !== ''),
    values: parseValues(match[3]!),
  };
}

function unquote(text: string): string {
  return JSON.parse(text) as string;
}

function textCheck(rest: string): TextCheck {
  const message = /^msg:\s*(.*)$/.exec(rest);
  if (message !== null) return { message: message[1]!, regexp: null };
  const regexp = /^regex:\s*(.*)$/.exec(rest);
  return { message: null, regexp: regexp === null ? null : new RegExp(regexp[1]!) };
}

function readExpectation(lines: readonly string[], ordered: boolean, fails: boolean): Expectation {
  const expect: Expectation = {
    fail: fails ? { message: null, regexp: null } : null,
    ordered,
    warn: [],
    info: [],
    noWarn: false,
    noInfo: false,
    text: null,
    rangeVector: null,
    scalar: null,
    series: [],
  };
  for (const line of lines) {
    const match = /^expect\s+(\S+)\s*(.*)$/.exec(line);
    if (match === null) {
      if (/^[+-]?(\d|\.\d|inf|nan)/i.test(line)) expect.scalar = parseValues(line)[0]!;
      else {
        const series = parseSeriesLine(line);
        if (series === null) throw new Error(`native histogram expected: ${line}`);
        expect.series.push(series);
      }
      continue;
    }
    const rest = match[2]!;
    if (match[1] === 'fail') expect.fail = textCheck(rest);
    else if (match[1] === 'ordered') expect.ordered = true;
    else if (match[1] === 'warn') expect.warn.push(textCheck(rest));
    else if (match[1] === 'info') expect.info.push(textCheck(rest));
    else if (match[1] === 'no_warn') expect.noWarn = true;
    else if (match[1] === 'no_info') expect.noInfo = true;
    else if (match[1] === 'string') expect.text = unquote(rest);
    else if (match[1] === 'range') {
      const range = /^vector from (\S+) to (\S+) step (\S+)$/.exec(rest)!;
      expect.rangeVector = {
        startMillis: parseMillis(range[1]!),
        stepMillis: parseMillis(range[3]!),
      };
    } else throw new Error(`unknown expectation: ${line}`);
  }
  return expect;
}

/** Commands of a script, in order. */
export function parseScript(text: string): Command[] {
  const lines = text.split('\n').map((line) => line.trim());
  const commands: Command[] = [];
  let at = 0;
  const block = (): string[] => {
    const taken: string[] = [];
    while (at < lines.length && lines[at] !== '' && !lines[at]!.startsWith('#')) {
      taken.push(lines[at++]!);
    }
    return taken;
  };
  while (at < lines.length) {
    const number = at + 1;
    const line = lines[at++]!;
    if (line === '' || line.startsWith('#')) continue;
    if (line === 'clear') {
      commands.push({ kind: 'clear' });
      continue;
    }
    const load = /^load(?:_with_nhcb)?\s+(\S+)$/.exec(line);
    if (load !== null) {
      const series = block().flatMap((entry) => parseSeriesLine(entry) ?? []);
      commands.push({ kind: 'load', stepMillis: parseMillis(load[1]!), series });
      continue;
    }
    const evaluation =
      /^eval(?:_(fail|ordered|warn|info))?\s+(?:instant at (\S+)|range from (\S+) to (\S+) step (\S+))\s+(.*)$/.exec(
        line,
      );
    if (evaluation === null) throw new Error(`line ${number}: unknown command: ${line}`);
    const [, kind, time, start, end, step, expr] = evaluation;
    const expect = readExpectation(block(), kind === 'ordered', kind === 'fail');
    commands.push({
      kind: 'eval',
      line: number,
      expr: expr!,
      startMillis: parseMillis(time ?? start!),
      endMillis: parseMillis(time ?? end!),
      stepMillis: step === undefined ? 0 : parseMillis(step),
      expect,
    });
  }
  return commands;
}
