/**
 * Answers of `render` but JSON: that of Rickshaw, CSV, Graphite's raw text, and what servers answer each other. They are written
 * as they are sent, some thousand rows at a time and without an object for a row: what a client does not take is not made.
 */
import { AnswerPieces, inPieces } from '../../http/answer_pieces.ts';
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
  const items = list.values().map((series) => pickledDictionary(infoOf(series), valuesOf(series)));
  return inPieces(pickledList(items));
}

/** The same as MessagePack. */
export function packedSeries(list: readonly Series[]): Iterable<Uint8Array> {
  const items = list.values().map((series) => packedDictionary(infoOf(series), valuesOf(series)));
  return inPieces(packedList(list.length, items));
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

/** As Rickshaw, a library of graphs, takes it. */
export function* rickshawBody(
  list: readonly Series[],
  points: readonly Points[],
): Iterable<Uint8Array> {
  const pieces = new AnswerPieces();
  pieces.add('[');
  for (const [index, { name }] of list.entries()) {
    const { values, present, startSeconds, stepSeconds } = points[index]!;
    pieces.add(`${index === 0 ? '' : ', '}{"target": ${JSON.stringify(name)}, "datapoints": [`);
    for (let row = 0; row < values.length; row++) {
      const value = jsonNumber(present[row] === 1 ? values[row]! : null);
      const seconds = startSeconds + row * stepSeconds;
      pieces.add(`${row === 0 ? '' : ', '}{"x": ${seconds}, "y": ${value}}`);
      if (pieces.isFull) yield pieces.take();
    }
    pieces.add(']}');
  }
  pieces.add(']');
  yield pieces.take();
}

/** Rows of CSV in one go: a wall clock takes some microseconds for each. */
const csvRowsAtOnce = 512;

/** Name, time there, value; empty for none. */
export function* csvBody(list: readonly Series[], zone: Zone): Iterable<Uint8Array> {
  const pieces = new AnswerPieces();
  let rows = 0;
  for (const { name, values, present, startSeconds, stepSeconds } of list) {
    const field = csvField(name);
    for (let row = 0; row < values.length; row++) {
      const value = present[row] === 1 ? plainText(values[row]!) : '';
      pieces.add(`${field},${wallText(zone, startSeconds + row * stepSeconds)},${value}\r\n`);
      rows += 1;
      if (pieces.isFull || rows % csvRowsAtOnce === 0) yield pieces.take();
    }
  }
  yield pieces.take();
}

/** A line a series: name, start, end, step, then values. */
export function* rawBody(list: readonly Series[]): Iterable<Uint8Array> {
  const pieces = new AnswerPieces();
  for (const { name, values, present, startSeconds, endSeconds, stepSeconds } of list) {
    pieces.add(`${name},${startSeconds},${endSeconds},${stepSeconds}|`);
    for (let row = 0; row < values.length; row++) {
      const value = present[row] === 1 ? plainText(values[row]!) : 'None';
      pieces.add(row === 0 ? value : `,${value}`);
      if (pieces.isFull) yield pieces.take();
    }
    pieces.add('\n');
  }
  yield pieces.take();
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
