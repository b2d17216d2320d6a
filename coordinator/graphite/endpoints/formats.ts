/** Answers of `render` but JSON: that of Rickshaw, CSV, Graphite's raw text, and what servers answer each other. */
import type { Series } from '../series/series.ts';
import type { Zone } from '../time/zone.ts';
import { jsonNumber } from './json.ts';
import { packedDictionary, packedList } from './msgpack.ts';
import { type Picklable, pickledDictionary, pickledList } from './pickle.ts';
import type { Points } from './points.ts';

/** What servers of Graphite answer each other. */
export const pickleContentType = 'application/pickle';
export const msgpackContentType = 'application/x-msgpack';

/** Series as Graphite's own servers pickle them. */
export function pickledSeries(list: readonly Series[]): Iterable<Uint8Array> {
  return pickledList(
    list.values().map((series) => pickledDictionary(infoOf(series), valuesOf(series))),
  );
}

/** The same as MessagePack. */
export function packedSeries(list: readonly Series[]): Iterable<Uint8Array> {
  const items = list.values().map((series) => packedDictionary(infoOf(series), valuesOf(series)));
  return packedList(list.length, items);
}

function infoOf(series: Series): { readonly [key: string]: Picklable } {
  return {
    name: series.name,
    pathExpression: series.pathExpression,
    start: series.startSeconds,
    end: series.endSeconds,
    step: series.stepSeconds,
    consolidationFunc: series.consolidation,
    valuesPerPoint: 1,
    xFilesFactor: series.xFilesFactor,
  };
}

const valuesOf = (series: Series) => ({ name: 'values', of: series }) as const;

/** A text for each series; joined by `between`, after `before` and ahead of `after`, they are the answer. */
export interface AnswerText {
  readonly contentType: string;
  readonly before: string;
  readonly between: string;
  readonly after: string;
  readonly parts: Iterable<string>;
}

/** As Rickshaw, a library of graphs, takes it. */
export function rickshawText(list: readonly Series[], points: readonly Points[]): AnswerText {
  return {
    contentType: 'application/json',
    before: '[',
    between: ', ',
    after: ']',
    parts: (function* () {
      for (const [index, { name }] of list.entries()) {
        const rows = [...eachPoint(points[index]!)].map(
          ([value, seconds]) => `{"x": ${seconds}, "y": ${jsonNumber(value)}}`,
        );
        yield `{"target": ${JSON.stringify(name)}, "datapoints": [${rows.join(', ')}]}`;
      }
    })(),
  };
}

/** Name, time there, value; empty for none. */
export function csvText(list: readonly Series[], zone: Zone): AnswerText {
  return {
    contentType: 'text/csv',
    before: '',
    between: '',
    after: '',
    parts: (function* () {
      for (const series of list) {
        const name = csvField(series.name);
        let text = '';
        for (const [value, seconds] of eachPoint(series)) {
          text += `${name},${wallText(zone, seconds)},${value === null ? '' : plainText(value)}\r\n`;
        }
        yield text;
      }
    })(),
  };
}

/** A line a series: name, start, end, step, then values. */
export function rawText(list: readonly Series[]): AnswerText {
  return {
    contentType: 'text/plain',
    before: '',
    between: '',
    after: '',
    parts: (function* () {
      for (const series of list) {
        const { name, startSeconds, endSeconds, stepSeconds } = series;
        const values = [...eachPoint(series)].map(([value]) =>
          value === null ? 'None' : plainText(value),
        );
        yield `${name},${startSeconds},${endSeconds},${stepSeconds}|${values.join(',')}\n`;
      }
    })(),
  };
}

function* eachPoint({
  values,
  present,
  startSeconds,
  stepSeconds,
}: Points): Iterable<[number | null, number]> {
  for (let row = 0; row < values.length; row++) {
    yield [present[row] === 1 ? values[row]! : null, startSeconds + row * stepSeconds];
  }
}

function plainText(value: number): string {
  if (Number.isNaN(value)) return 'nan';
  return Number.isFinite(value) ? `${value}` : value > 0 ? 'inf' : '-inf';
}

function csvField(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function wallText(zone: Zone, seconds: number): string {
  const { year, month, day, hour, minute, second } = zone.wallTime(seconds);
  const two = (part: number): string => String(part).padStart(2, '0');
  return `${year}-${two(month)}-${two(day)} ${two(hour)}:${two(minute)}:${two(second)}`;
}
