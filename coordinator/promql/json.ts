/** Results as JSON of the Prometheus API, in pieces; the caller's reading is the backpressure. */
import { isAbsent } from '#engine/row.ts';
import type { Labels } from './labels.ts';
import { formatNumber } from './number_format.ts';
import type { QueryResult, QueryValue } from './result.ts';

const pieceBytes = 65_536;

/** Collects texts until they make a piece. Values and times are ASCII; labels may be anything. */
class Pieces {
  #text: string;

  constructor() {
    this.#text = '';
  }

  add(text: string): void {
    this.#text += text;
  }

  get isFull(): boolean {
    return this.#text.length >= pieceBytes;
  }

  take(): Uint8Array {
    const bytes = Buffer.from(this.#text);
    this.#text = '';
    return bytes;
  }
}

/** Seconds with exactly three digits behind the point, or none. */
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
          `${index === 0 ? '' : ','}{"metric":${labelsJson(label)},"value":[${time},"${formatNumber(buffer.values[index]!)}"]}`,
        );
        if (pieces.isFull) yield pieces.take();
      }
      pieces.add(']');
      return;
    }
    case 'matrix': {
      const { grid, matrix } = value;
      const times = Array.from(
        { length: grid.stepCount },
        (_, step) => `[${formatTime(grid.startMillis + step * grid.stepMillis)},"`,
      );
      pieces.add('[');
      for (const [index, label] of matrix.labels.entries()) {
        pieces.add(`${index === 0 ? '' : ','}{"metric":${labelsJson(label)},"values":[`);
        let separator = '';
        const { values, words } = matrix.buffer;
        for (let step = 0; step < grid.stepCount; step++) {
          const cell = index * grid.stepCount + step;
          const sample = values[cell]!;
          if (sample !== sample && isAbsent(words, cell)) continue;
          pieces.add(`${separator}${times[step]!}${formatNumber(sample)}"]`);
          separator = ',';
        }
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
          pieces.add(`${i === 0 ? '' : ','}[${time},"${formatNumber(series.buffer.values[i]!)}"]`);
          if (pieces.isFull) yield pieces.take();
        }
        pieces.add(']}');
      }
      pieces.add(']');
    }
  }
}
