/** Answers of `render` as JSON. */
import type { Work } from '#lib/turns/turns.ts';
import { PointPrinter } from '#engine/window_functions/point_printer.ts';
import { AnswerPieces } from '../../http/answer_pieces.ts';
import type { Series } from '../series/series.ts';
import type { Points } from './points.ts';

/** About what it takes to look at a row, in units of work (lib/turns/turns.ts). */
const rowUnits = 2;
/** Rows that are looked at in one go. */
const rowsAtOnce = 16_384;

/** Made when the first answer is printed. */
let printer: PointPrinter | null = null;

/**
 * @param callback for JSONP; empty for none
 * @param leavesOutNulls series without values are left out, too
 * @param work of the answer, however long its client takes: of rows that are left out nothing is sent meanwhile
 */
export async function* jsonBody(
  list: readonly Series[],
  points: readonly Points[],
  leavesOutNulls: boolean,
  callback: string,
  work: Work,
): AsyncIterable<Uint8Array> {
  printer ??= new PointPrinter();
  const pieces = new AnswerPieces();
  let isFirst = true;
  const add = (bytes: Uint8Array) => {
    // What stands between two.
    pieces.addBytes(isFirst ? bytes.subarray(', '.length) : bytes);
    isFirst = false;
  };
  pieces.add(callback === '' ? '[' : `${callback}([`);
  let between = '';
  for (const [index, { name, tags }] of list.entries()) {
    const ofSeries = points[index]!;
    if (leavesOutNulls && !(await hasNumber(ofSeries, work))) continue;
    pieces.add(
      `${between}{"target": ${JSON.stringify(name)}, "tags": {${tagsText(tags)}}, "datapoints": [`,
    );
    const { length } = ofSeries.values;
    isFirst = true;
    for (let point = 0; point < length; ) {
      const first = point;
      point = printer.print(ofSeries, point, leavesOutNulls, jsonNumber, add);
      if (pieces.isFull) yield pieces.take();
      else if (leavesOutNulls && work.spend(rowUnits * (point - first))) await work.pause();
    }
    pieces.add(']}');
    if (pieces.isFull) yield pieces.take();
    between = ', ';
  }
  pieces.add(callback === '' ? ']' : '])');
  yield pieces.take();
}

function tagsText(tags: ReadonlyMap<string, string>): string {
  const texts = [...tags].map(([tag, value]) => `${JSON.stringify(tag)}: ${JSON.stringify(value)}`);
  return texts.join(', ');
}

async function hasNumber({ values, present }: Points, work: Work): Promise<boolean> {
  for (let first = 0; first < values.length; first += rowsAtOnce) {
    const past = Math.min(values.length, first + rowsAtOnce);
    for (let point = first; point < past; point++) {
      if (present[point] === 1 && !Number.isNaN(values[point])) return true;
    }
    if (work.spend(rowUnits * (past - first))) await work.pause();
  }
  return false;
}

/** JSON has no infinities; Graphite writes numbers that are read as such. */
export function jsonNumber(value: number | null): string {
  if (value === null || Number.isNaN(value)) return 'null';
  if (Number.isFinite(value)) return `${value}`;
  return value > 0 ? '1e9999' : '-1e9999';
}
