/** A line of OpenMetrics that is a sample: name and labels, a number, a time or none, an exemplar or none, one space between them. */
import { exemplarRunesMax } from '#engine/typed/exemplar.ts';

export interface Label {
  readonly name: string;
  readonly value: string;
}

export interface Sample {
  readonly name: string;
  /** Sorted by name, each once. */
  readonly labels: readonly Label[];
  readonly value: number;
  /** Seconds; null where there is none. */
  readonly time: number | null;
  /** Null where there is none. */
  readonly exemplar: SampleExemplar | null;
}

export interface SampleExemplar {
  readonly labels: readonly Label[];
  readonly value: number;
  /** Seconds; null where there is none. */
  readonly time: number | null;
}

const metricName = '[a-zA-Z_:][a-zA-Z0-9_:]*';
const decimal = '[-+]?(?:\\d+(?:\\.\\d*)?|\\.\\d+)(?:[eE][-+]?\\d+)?';
/** Without the quotes. */
const quotedText = '((?:[^"\\\\\\n]|\\\\[^\\n])*)';
const quoted = `"${quotedText}"`;

const metricPattern = new RegExp(metricName, 'y');
const labelPattern = /[a-zA-Z_][a-zA-Z0-9_]*/y;
const quotedPattern = new RegExp(quoted, 'y');
const numberPattern = new RegExp(`${decimal}|[-+]?inf(?:inity)?|nan`, 'iy');
const timePattern = new RegExp(decimal, 'y');
const wholeMetric = new RegExp(`^(?:(${metricName})|${quoted})$`);
const wholeNumber = new RegExp(`^(?:${decimal}|[-+]?inf(?:inity)?|nan)$`, 'i');

/** Or what is wrong with the line. */
export function sampleOf(line: string): Sample | string {
  return new Reader(line).sample();
}

/** The name of a metric, in quotes or not; null where it is none. */
export function metricNameOf(text: string): string | null {
  const parts = wholeMetric.exec(text);
  if (parts === null) return null;
  const name = parts[1] ?? unescaped(parts[2]!);
  return name === '' ? null : name;
}

/** The number of a label; null where it is none. */
export function numberOfLabel(text: string): number | null {
  return wholeNumber.test(text) ? numberOf(text) : null;
}

class Reader {
  readonly #line: string;
  #at = 0;

  constructor(line: string) {
    this.#line = line;
  }

  sample(): Sample | string {
    const plainName = this.#take(metricPattern)?.[0] ?? null;
    const series = this.#next('{')
      ? this.#labels(plainName, false)
      : { name: plainName, labels: [] };
    if (typeof series === 'string') return series;
    const { name, labels } = series;
    if (name === null) return 'expected the name of a metric';
    const point = this.#point();
    if (typeof point === 'string') return point;
    const exemplar = this.#exemplar();
    if (typeof exemplar === 'string') return exemplar;
    if (this.#at < this.#line.length) return `expected the end of the line: ${this.#rest()}`;
    return { name, labels, ...point, exemplar };
  }

  #exemplar(): SampleExemplar | null | string {
    if (!this.#line.startsWith(' # {', this.#at)) return null;
    this.#at += ' # {'.length;
    const of = this.#labels(null, true);
    if (typeof of === 'string') return `exemplar: ${of}`;
    const point = this.#point();
    if (typeof point === 'string') return `exemplar: ${point}`;
    const runes = of.labels.reduce((sum, label) => sum + runesOf(label), 0);
    if (runes > exemplarRunesMax) {
      return `labels of the exemplar have more than ${exemplarRunesMax} characters`;
    }
    return { labels: of.labels, ...point };
  }

  /** Labels behind their brace, and the name of the metric, which may stand among them. */
  #labels(
    plainName: string | null,
    isOfExemplar: boolean,
  ): { name: string | null; labels: readonly Label[] } | string {
    const labels: Label[] = [];
    let name = plainName;
    while (!(labels.length === 0 && name === plainName && this.#next('}'))) {
      const quotedName = this.#take(quotedPattern);
      const key = quotedName === null ? this.#take(labelPattern)?.[0] : unescaped(quotedName[1]!);
      if (key === undefined || key === '') return `expected the name of a label: ${this.#rest()}`;
      if (this.#next('=')) {
        const value = this.#take(quotedPattern);
        if (value === null) return `label ${key}: expected a text in quotes: ${this.#rest()}`;
        labels.push({ name: key, value: unescaped(value[1]!) });
      } else {
        if (quotedName === null || isOfExemplar) {
          return `expected "=" behind the name of a label: ${this.#rest()}`;
        }
        if (name !== null) return 'two names of a metric';
        name = key;
      }
      if (this.#next('}')) break;
      if (!this.#next(',')) return `expected a comma or "}": ${this.#rest()}`;
    }
    labels.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
    for (const [i, label] of labels.entries()) {
      const isTwice = label.name === labels[i - 1]?.name || label.name === '__name__';
      if (isTwice && !isOfExemplar) return `label ${label.name} appears twice`;
    }
    return { name, labels };
  }

  /** A number, and a time or none. */
  #point(): { value: number; time: number | null } | string {
    if (!this.#next(' ')) return `expected a space and a number: ${this.#rest()}`;
    const number = this.#take(numberPattern);
    if (number === null) return `expected a number: ${this.#rest()}`;
    if (!/^ [^#]/.test(this.#line.slice(this.#at, this.#at + 2))) {
      return { value: numberOf(number[0]), time: null };
    }
    this.#at += 1;
    const time = this.#take(timePattern);
    if (time === null) return `expected a time: seconds: ${this.#rest()}`;
    return { value: numberOf(number[0]), time: Number(time[0]) };
  }

  #take(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#line);
    if (found !== null) this.#at += found[0].length;
    return found;
  }

  #next(character: string): boolean {
    const isNext = this.#line[this.#at] === character;
    if (isNext) this.#at += 1;
    return isNext;
  }

  #rest(): string {
    return JSON.stringify(this.#line.slice(this.#at, this.#at + restCharactersMax));
  }
}

/** Of a line in a message. */
const restCharactersMax = 60;

function numberOf(text: string): number {
  if (/^nan$/i.test(text)) return Number.NaN;
  if (/inf/i.test(text)) return text.startsWith('-') ? -Infinity : Infinity;
  return Number(text);
}

/** A text without its backslashes. */
export function unescaped(text: string): string {
  if (!text.includes('\\')) return text;
  return text.replace(/\\(["\\n])/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped));
}

/** Characters, of which some are two units of UTF-16. */
function runesOf({ name, value }: Label): number {
  return Array.from(name).length + Array.from(value).length;
}
