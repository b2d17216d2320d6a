/** Results as JSON of the Prometheus API, in pieces; the caller's reading is the backpressure. */
import type { Grid } from '../plan/plan.ts';
import type { Labels } from '../rows/labels.ts';
import { formatNumber, formatSample } from '#engine/window_functions/number_format.ts';
import { RowPrinter } from '#engine/window_functions/row_printer.ts';
import type { QueryResult, QueryValue } from './result.ts';

const pieceBytes = 65_536;
/** Room of the first one: most answers need no more, and larger memory is the system's each time. */
const firstPieceBytes = 16_384;

/** Made when the first matrix is printed. */
let printer: RowPrinter | null = null;

const noBytes = Buffer.alloc(0);

/** Of the grid that came last: panels of a dashboard have one. */
let lastPrefixes: { readonly grid: Grid; readonly prefixes: readonly string[] } | null = null;
/** Those of more steps are not kept. */
const keptStepsMax = 11_000;

/** What stands before the value of each step. */
function prefixesOf(grid: Grid): readonly string[] {
  const { startMillis, stepMillis, stepCount } = grid;
  const last = lastPrefixes?.grid;
  const isLast =
    last?.startMillis === startMillis &&
    last.stepMillis === stepMillis &&
    last.stepCount === stepCount;
  if (isLast) return lastPrefixes!.prefixes;
  const prefixes = Array.from(
    { length: stepCount },
    (_, step) => `,[${formatTime(startMillis + step * stepMillis)},"`,
  );
  if (stepCount <= keptStepsMax) lastPrefixes = { grid, prefixes };
  return prefixes;
}

/** Collects texts and bytes until they make a piece. */
class Pieces {
  #bytes: Buffer;
  #length: number;

  constructor() {
    this.#bytes = Buffer.allocUnsafe(firstPieceBytes);
    this.#length = 0;
  }

  #reserve(count: number): void {
    if (count <= this.#bytes.length - this.#length) return;
    const doubled = this.#bytes.length === 0 ? 2 * pieceBytes : 2 * this.#bytes.length;
    const larger = Buffer.allocUnsafe(Math.max(doubled, this.#length + count));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }

  add(text: string): void {
    this.#reserve(text.length * 3);
    this.#length += this.#bytes.write(text, this.#length);
  }

  addBytes(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  get isFull(): boolean {
    return this.#length >= pieceBytes;
  }

  take(): Uint8Array {
    const piece = this.#bytes.subarray(0, this.#length);
    this.#bytes = noBytes;
    this.#length = 0;
    return piece;
  }
}

/** Seconds with exactly three digits after the point, or none. */
export function formatTime(millis: number): string {
  const sign = millis < 0 ? '-' : '';
  const size = Math.abs(millis);
  const fraction = size % 1000;
  const seconds = `${sign}${(size - fraction) / 1000}`;
  return fraction === 0 ? seconds : `${seconds}.${String(fraction).padStart(3, '0')}`;
}

function labelsJson(labels: Labels): string {
  let text = '{';
  for (const { name, value } of labels.tags) {
    if (text.length > 1) text += ',';
    text += `${JSON.stringify(name)}:${JSON.stringify(value)}`;
  }
  return `${text}}`;
}

/** The whole body `{"status":"success","data":{...}}` in pieces of some 64 KiB. */
export async function* writeResultJson(result: QueryResult): AsyncGenerator<Uint8Array> {
  const pieces = new Pieces();
  pieces.add(`{"status":"success","data":{"resultType":"${result.resultType}","result":`);
  yield* writeValue(result.value, pieces);
  pieces.add('}');
  if (result.warnings.length > 0) pieces.add(`,"warnings":${JSON.stringify(result.warnings)}`);
  if (result.infos.length > 0) pieces.add(`,"infos":${JSON.stringify(result.infos)}`);
  pieces.add('}');
  yield pieces.take();
}

function* writeValue(value: QueryValue, pieces: Pieces): Generator<Uint8Array> {
  switch (value.kind) {
    case 'scalar':
      pieces.add(`[${formatTime(value.timeMillis)},"${formatNumber(value.value)}"]`);
      return;
    case 'string':
      pieces.add(`[${formatTime(value.timeMillis)},${JSON.stringify(value.value)}]`);
      return;
    case 'vector': {
      const time = formatTime(value.timeMillis);
      const { labels, buffer } = value.matrix;
      pieces.add('[');
      for (const [index, label] of labels.entries()) {
        pieces.add(
          `${index === 0 ? '' : ','}{"metric":${labelsJson(label)},"value":[${time},"${formatSample(buffer.values[index]!)}"]}`,
        );
        if (pieces.isFull) yield pieces.take();
      }
      pieces.add(']');
      return;
    }
    case 'matrix': {
      const { grid, matrix } = value;
      const prefixes = prefixesOf(grid);
      printer ??= new RowPrinter();
      pieces.add('[');
      for (const [index, label] of matrix.labels.entries()) {
        pieces.add(`${index === 0 ? '' : ','}{"metric":${labelsJson(label)},"values":[`);
        let isFirst = true;
        printer.print(matrix.buffer, index * grid.stepCount, prefixes, (bytes) => {
          // The first pair has no comma in front.
          pieces.addBytes(isFirst ? bytes.subarray(1) : bytes);
          isFirst = false;
        });
        pieces.add(']}');
        if (pieces.isFull) yield pieces.take();
      }
      pieces.add(']');
      return;
    }
    case 'rawMatrix': {
      pieces.add('[');
      for (const [index, series] of value.series.entries()) {
        pieces.add(`${index === 0 ? '' : ','}{"metric":${labelsJson(series.labels)},"values":[`);
        for (let i = 0; i < series.count; i++) {
          const time = formatTime(series.timestampMillis[i]!);
          pieces.add(`${i === 0 ? '' : ','}[${time},"${formatSample(series.buffer.values[i]!)}"]`);
          if (pieces.isFull) yield pieces.take();
        }
        pieces.add(']}');
      }
      pieces.add(']');
    }
  }
}
