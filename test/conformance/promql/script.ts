/** Reader of promqltest scripts: text → commands. */
import type { Tag } from '#lib/tags.ts';
import { customBucketLines } from './custom_buckets.ts';
import { parseMillis, parseValues, type ScriptValue } from './script_values.ts';

export interface SeriesLine {
  readonly tags: readonly Tag[];
  readonly values: readonly ScriptValue[];
  /** From each sample's time to its start time (`@st` lines); null for none. */
  readonly startMillis: readonly (number | null)[] | null;
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
  /** Some annotation of the kind, whichever. */
  anyWarn: boolean;
  anyInfo: boolean;
  noWarn: boolean;
  noInfo: boolean;
  text: string | null;
  rangeVector: { startMillis: number; stepMillis: number } | null;
  scalar: ScriptValue;
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

/** `name{a="b"} values` */
export function parseSeriesLine(line: string): SeriesLine {
  const match =
    /^([a-zA-Z_:][a-zA-Z0-9_:]*)?\s*(?:\{(?!\{)((?:[^"'`}]|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)*)\})?\s*(.*)$/.exec(
      line,
    );
  if (match === null) throw new Error(`not a series: ${line}`);
  const tags: Tag[] = [];
  if (match[1] !== undefined) tags.push({ name: '__name__', value: match[1] });
  const pairs =
    /\s*(?:([a-zA-Z_][a-zA-Z0-9_]*|"(?:[^"\\]|\\.)*")\s*=\s*)?("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`)\s*,?/g;
  for (const [, name, value] of (match[2] ?? '').matchAll(pairs)) {
    const label = name === undefined ? '__name__' : name.startsWith('"') ? unquote(name) : name;
    tags.push({ name: label, value: unquote(value!) });
  }
  return {
    tags: tags.filter(({ value }) => value !== ''),
    values: parseValues(match[3]!),
    startMillis: null,
  };
}

/** `-1m+30sx3` and the like, by sample. */
function parseStarts(text: string): (number | null)[] {
  return text.split(/\s+/).flatMap((word): (number | null)[] => {
    const gap = /^_(?:x(\d+))?$/.exec(word);
    if (gap !== null) return Array.from({ length: Number(gap[1] ?? 1) }, () => null);
    const [, first, change, times] = /^([+-]?\d+[a-wyz]*)([+-]\d+[a-wyz]+)?(?:x(\d+))?$/.exec(
      word,
    )!;
    const step = change === undefined ? 0 : parseMillis(change);
    const start = parseMillis(first!);
    return Array.from({ length: Number(times ?? 0) + 1 }, (_, i) => start + i * step);
  });
}

/** Lines of a load, with the start times that stand before some of them. */
function parseLoad(lines: readonly string[]): SeriesLine[] {
  const series: SeriesLine[] = [];
  let startMillis: (number | null)[] | null = null;
  for (const line of lines) {
    const starts = /^(\S+)@st\s+(.*)$/.exec(line);
    if (starts !== null) {
      startMillis = parseStarts(starts[2]!);
      continue;
    }
    series.push({ ...parseSeriesLine(line), startMillis });
    startMillis = null;
  }
  return series;
}

function unquote(text: string): string {
  if (text.startsWith('`')) return text.slice(1, -1);
  const plain = text.startsWith("'")
    ? `"${text.slice(1, -1).replaceAll("\\'", "'").replaceAll('"', '\\"')}"`
    : text;
  return JSON.parse(plain.replace(/\\x([0-9a-fA-F]{2})/g, '\\u00$1')) as string;
}

function textCheck(rest: string): TextCheck {
  const message = /^msg:\s*(.*)$/.exec(rest);
  if (message !== null) return { message: message[1]!, regexp: null };
  const regexp = /^regex:\s*(.*)$/.exec(rest);
  return { message: null, regexp: regexp === null ? null : new RegExp(regexp[1]!) };
}

function readExpectation(lines: readonly string[], kind: string | undefined): Expectation {
  const expect: Expectation = {
    fail: kind === 'fail' ? { message: null, regexp: null } : null,
    ordered: kind === 'ordered',
    warn: [],
    info: [],
    anyWarn: kind === 'warn',
    anyInfo: kind === 'info',
    noWarn: false,
    noInfo: false,
    text: null,
    rangeVector: null,
    scalar: null,
    series: [],
  };
  for (const line of lines) {
    const failure = /^expected_fail_(message|regexp)\s+(.*)$/.exec(line);
    if (failure !== null) {
      const [, form, text] = failure;
      expect.fail = textCheck(`${form === 'message' ? 'msg' : 'regex'}: ${text}`);
      continue;
    }
    const match = /^expect\s+(\S+)\s*(.*)$/.exec(line);
    if (match === null) {
      if (/^[+-]?(\d|\.\d|inf\b|nan\b)/i.test(line)) expect.scalar = parseValues(line)[0]!;
      else expect.series.push(parseSeriesLine(line));
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
    const load = /^load(_with_nhcb)?\s+(\S+)$/.exec(line);
    if (load !== null) {
      const lines = parseLoad(block());
      const series = load[1] === undefined ? lines : [...lines, ...customBucketLines(lines)];
      commands.push({ kind: 'load', stepMillis: parseMillis(load[2]!), series });
      continue;
    }
    const evaluation =
      /^eval(?:_(fail|ordered|warn|info))?\s+(?:instant at (\S+)|range from (\S+) to (\S+) step (\S+))\s+(.*)$/.exec(
        line,
      );
    if (evaluation === null) throw new Error(`line ${number}: unknown command: ${line}`);
    const [, kind, time, start, end, step, expr] = evaluation;
    const expect = readExpectation(block(), kind);
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
