/** What readers of other systems' formats hand on, as rows in words, for tests. */
import assert from 'node:assert/strict';
import { formatPrometheus } from '#engine/write_decoder/lines/layout.ts';
import { WriteDecoder, type WriteDecoderRows } from '#engine/write_decoder/write_decoder.ts';
import { decodeTags, type Tag, tagsProblem } from '#lib/tags.ts';
import { Turns, type Work } from '#lib/turns/turns.ts';
import { type Pick, randomOf } from '#test/sim/mutate.ts';
import { type PointBody, PointRows, type PointSeries } from './point_series.ts';

/** Rows, and how many more are refused. */
export interface TestRows {
  readonly rows: readonly string[];
  readonly refused: number;
}

/** @param tags in the order of their names */
export function rowText(tags: readonly Tag[], nanos: bigint, value: number): string {
  const labels = tags.map((tag) => `${JSON.stringify(tag.name)}=${JSON.stringify(tag.value)}`);
  return `${labels.join()} ${nanos} ${Object.is(value, -0) ? '-0' : value}`;
}

/** What ingest/plain_names.ts has, byte by byte. */
export function plainNameTwin(text: string, isMetric: boolean): string {
  let name = '';
  for (const byte of Buffer.from(text)) {
    const character = String.fromCharCode(byte);
    const isGood = /[a-zA-Z0-9_]/.test(character) || (isMetric && character === ':');
    name += isGood && !(name === '' && /[0-9]/.test(character)) ? character : '_';
  }
  return name;
}

/** Knows the rules for tags alone. */
export class RowsOfDecoder {
  readonly #decoder: WriteDecoder;

  constructor(pick: Pick) {
    const verdictOf = (tags: Uint8Array) => ({
      idScheme: 1,
      explicitId: new Uint8Array(0),
      idHash: 0,
      problem: tagsProblem(decodeTags(tags)),
    });
    this.#decoder = new WriteDecoder({
      random: randomOf(pick),
      memoryBytesMax: 4 << 20,
      verdictOf,
    });
  }

  /** Of lines of Prometheus' text. */
  ofText(text: Uint8Array): TestRows {
    const options = {
      format: formatPrometheus,
      unitNanos: 1_000_000n,
      nowNanos: 1n,
      isLast: true,
      rowsMax: 1000,
    };
    const all: TestRows[] = [];
    for (let at = 0; at < text.length; ) {
      const read = this.#decoder.lines([text.subarray(at)], options);
      assert.ok(read.readBytes > 0, 'a text is read to its end');
      at += read.readBytes;
      all.push(this.#texts(read.rows), { rows: [], refused: read.problems.count });
    }
    return joined(all);
  }

  ofSeries(series: readonly PointSeries[]): TestRows {
    const all: TestRows[] = [];
    const parts = new PointRows(this.#decoder, series);
    for (let rows = parts.next(); rows !== null; rows = parts.next()) all.push(this.#texts(rows));
    return joined(all);
  }

  #texts({ rowCount, slots, timestamps, timeUnitNanos, values }: WriteDecoderRows): TestRows {
    const rows: string[] = [];
    for (let row = 0; row < rowCount; row += 1) {
      const slot = slots[row]!;
      if (this.#decoder.problem(slot) !== '') continue;
      const nanos = timestamps[row]! * BigInt(timeUnitNanos);
      rows.push(rowText(decodeTags(this.#decoder.tags(slot)), nanos, values[row]!));
    }
    return { rows, refused: rowCount - rows.length };
  }
}

/** Takes what a reader of bodies hands on, in the place of ingestion. */
export class TakenPoints {
  #taken: PointBody | null = null;
  readonly ingest = {
    begin: (signal: AbortSignal): Work =>
      Turns.of({ monotonicMillis: () => 0 }).begin(signal, 'write'),
    points: (_format: string, body: PointBody): Promise<void> => {
      this.#taken = body;
      return Promise.resolve();
    },
  };

  /** What came since the last call; null for nothing. */
  take(): PointBody | null {
    const taken = this.#taken;
    this.#taken = null;
    return taken;
  }
}

/** Undefined for what is no JSON. */
export function valueOfJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    return undefined;
  }
}

function joined(all: readonly TestRows[]): TestRows {
  const refused = all.reduce((sum, each) => sum + each.refused, 0);
  return { rows: all.flatMap(({ rows }) => rows), refused };
}
