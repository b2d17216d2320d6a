/** Answers of `render` as JSON. */
import { PointPrinter } from '#engine/window_functions/point_printer.ts';
import { AnswerPieces } from '../../http/answer_pieces.ts';
import type { Series } from '../series/series.ts';
import type { Points } from './points.ts';

/** Made when the first answer is printed. */
let printer: PointPrinter | null = null;

/** @param callback for JSONP; empty for none @param leavesOutNulls series without values are left out, too */
export function* jsonBody(
  list: readonly Series[],
  points: readonly Points[],
  leavesOutNulls: boolean,
  callback: string,
): Iterable<Uint8Array> {
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
    if (leavesOutNulls && !hasNumber(ofSeries)) continue;
    pieces.add(
      `${between}{"target": ${JSON.stringify(name)}, "tags": {${tagsText(tags)}}, "datapoints": [`,
    );
    const { length } = ofSeries.values;
    isFirst = true;
    for (let point = 0; point < length; ) {
      point = printer.print(ofSeries, point, leavesOutNulls, jsonNumber, add);
      if (pieces.isFull) yield pieces.take();
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

function hasNumber({ values, present }: Points): boolean {
  for (let point = 0; point < values.length; point++) {
    if (present[point] === 1 && !Number.isNaN(values[point])) return true;
  }
  return false;
}

/** JSON has no infinities; Graphite writes numbers that are read as such. */
export function jsonNumber(value: number | null): string {
  if (value === null || Number.isNaN(value)) return 'null';
  if (Number.isFinite(value)) return `${value}`;
  return value > 0 ? '1e9999' : '-1e9999';
}
