/** Names of OpenTelemetry as Prometheus' OTLP receiver translates them: of metrics, of labels and of units. */

import type { TranslationStrategy } from '#lib/config/schema/sections.ts';

/** Of a metric, as far as its name says it. */
export type NamedType = 'gauge' | 'counter' | 'other';

const units: Readonly<Record<string, string>> = {
  d: 'days',
  h: 'hours',
  min: 'minutes',
  s: 'seconds',
  ms: 'milliseconds',
  us: 'microseconds',
  ns: 'nanoseconds',
  By: 'bytes',
  KiBy: 'kibibytes',
  MiBy: 'mebibytes',
  GiBy: 'gibibytes',
  TiBy: 'tibibytes',
  KBy: 'kilobytes',
  MBy: 'megabytes',
  GBy: 'gigabytes',
  TBy: 'terabytes',
  m: 'meters',
  V: 'volts',
  A: 'amperes',
  J: 'joules',
  W: 'watts',
  g: 'grams',
  Cel: 'celsius',
  Hz: 'hertz',
  '1': '',
  '%': 'percent',
};

const unitsOfRates: Readonly<Record<string, string>> = {
  s: 'second',
  m: 'minute',
  h: 'hour',
  d: 'day',
  w: 'week',
  mo: 'month',
  y: 'year',
};

export class Names {
  readonly escapes: boolean;
  readonly #hasSuffixes: boolean;

  constructor(strategy: TranslationStrategy) {
    this.escapes = strategy.startsWith('Underscore');
    this.#hasSuffixes = strategy.endsWith('WithSuffixes');
  }

  /** @returns '' for a name that has nothing but what is escaped */
  metric(name: string, unit: string, type: NamedType): string {
    if (!this.escapes) return this.#hasSuffixes ? withSuffixes(name, unit, type) : name;
    const escaped = this.#hasSuffixes ? escapedWithSuffixes(name, unit, type) : escapedName(name);
    const prefixed = /^[0-9]/.test(escaped) ? `_${escaped}` : escaped;
    return prefixed === name || /[^_]/.test(prefixed) ? prefixed : '';
  }

  /** @returns '' for a name that has nothing but what is escaped */
  label(name: string): string {
    if (!/[^_]/.test(name)) return '';
    if (!this.escapes) return name;
    let escaped = name.replace(/[^a-zA-Z0-9_]/gu, '_');
    if (/^[0-9]/.test(escaped)) escaped = `key_${escaped}`;
    else if (/^_(?!_)/.test(escaped)) escaped = `key${escaped}`;
    return /[^_]/.test(escaped) ? escaped : '';
  }

  /** In words, for metadata and the label `__unit__`. */
  unit(unit: string): string {
    const [main, rate] = unitWords(unit);
    const words = this.escapes ? [escapedUnit(main), escapedUnit(rate)] : [main, rate];
    return words
      .filter((word) => word !== '')
      .join('_')
      .replace(/^_|_$/g, '');
  }
}

/** What is measured, and `per_…` of rates; each '' where there is none. */
function unitWords(unit: string): readonly [main: string, rate: string] {
  const at = unit.indexOf('/');
  const main = wordOf(at < 0 ? unit : unit.slice(0, at), units);
  const rate = at < 0 ? '' : wordOf(unit.slice(at + 1), unitsOfRates);
  return [main, rate === '' ? '' : `per_${rate}`];
}

/** What stands in braces is a remark. */
function wordOf(text: string, words: Readonly<Record<string, string>>): string {
  const unit = text.trim();
  if (/[{}]/.test(unit)) return '';
  return Object.hasOwn(words, unit) ? words[unit]! : unit;
}

function escapedUnit(word: string): string {
  return word
    .replace(/[^a-zA-Z0-9:]/gu, '_')
    .replace(/_+/g, '_')
    .replace(/^_/, '');
}

function escapedName(name: string): string {
  return name
    .split(/[^a-zA-Z0-9:_]+/u)
    .filter((part) => part !== '')
    .join('_');
}

function escapedWithSuffixes(name: string, unit: string, type: NamedType): string {
  let parts = name.split(/[^a-zA-Z0-9:]+/u).filter((part) => part !== '');
  const [main, rate] = unitWords(unit).map(escapedUnit) as [string, string];
  const rateWord = rate === 'per_' ? '' : rate.replace(/_$/, '');
  const isRateNew = rateWord !== '' && !parts.includes(rateWord);
  const mainWord = isRateNew ? main.replace(/_$/, '') : main;
  if (mainWord !== '' && !parts.includes(main)) parts.push(mainWord);
  if (isRateNew) parts.push(rateWord);
  const last = lastWord(unit, type);
  if (last !== null) parts = [...parts.filter((part) => part !== last), last];
  return parts.join('_');
}

function lastWord(unit: string, type: NamedType): string | null {
  if (type === 'counter') return 'total';
  return type === 'gauge' && unit === '1' ? 'ratio' : null;
}

function withSuffixes(name: string, unit: string, type: NamedType): string {
  const last = lastWord(unit, type);
  const [main, rate] = unitWords(unit);
  let base = last === null ? name : withoutSuffix(name, last);
  if (rate !== '') base = withoutSuffix(base, rate);
  if (main !== '' && !base.endsWith(main)) base = `${base}_${main}`;
  return [base, rate, last ?? ''].filter((part) => part !== '').join('_');
}

/** The suffix and the character before it. */
function withoutSuffix(name: string, suffix: string): string {
  const isThere = name.endsWith(suffix) && name.length > suffix.length + 1;
  return isThere ? name.slice(0, -suffix.length - 1) : name;
}
