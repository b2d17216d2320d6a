/** Exported lines alone, from bytes to rows: of one sample, as senders write, and of a hundred, as exports have them. */
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { legacyTagRules } from '#lib/tags.ts';
import { openReader } from '../otlp/otlp_testing.ts';
import { LabelSeries } from './series.ts';
import { JsonLineText } from './text.ts';

const seriesCount = 1000;

function bodyOf(rowsOfLine: number, valueOf: (row: number) => number): Buffer {
  const lines = Array.from({ length: seriesCount }, (_, index) => {
    const metric = {
      __name__: 'http_requests_total',
      code: String(200 + (index % 5)),
      instance: `host-${index >> 3}.example.com:9100`,
      job: 'shop',
      method: 'GET',
    };
    const values = Array.from({ length: rowsOfLine }, (_value, row) => valueOf(index + row));
    const timestamps = values.map((_value, row) => 1_700_000_000_000 + 15_000 * row);
    return JSON.stringify({ metric, values, timestamps });
  });
  return Buffer.from(lines.join('\n'));
}

function cpuNanosOfRow(series: LabelSeries, body: Buffer, rounds: number): number {
  let rows = 0;
  const before = process.cpuUsage();
  for (let round = 0; round < rounds; round++) {
    const text = new JsonLineText(series);
    text.add(body);
    text.end();
    for (let part = text.read(); part !== null; part = text.read()) rows += part.rows!.rowCount;
  }
  const { user, system } = process.cpuUsage(before);
  return ((user + system) * 1000) / rows;
}

export async function bench(size: BenchSize): Promise<BenchResult[]> {
  const decimals = (row: number): number => ((row * 37) % 10_000) / 100;
  const kinds = [
    ['a sample a line', 1, decimals, 200],
    ['100 samples a line', 100, decimals, 10],
    ['100 samples of 17 digits a line', 100, (row: number) => Math.sin(row), 10],
  ] as const;
  return kinds.map(([what, rowsOfLine, valueOf, rounds]) => {
    const body = bodyOf(rowsOfLine, valueOf);
    const values: number[] = [];
    for (let run = 0; run < (size === 'full' ? 5 : 1); run++) {
      const series = new LabelSeries(
        openReader().decoder,
        legacyTagRules,
        new SeededRandom(1),
        1 << 24,
      );
      cpuNanosOfRow(series, body, 1);
      values.push(cpuNanosOfRow(series, body, size === 'full' ? rounds : 1));
    }
    const value = values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
    return { name: `engine/json_lines: ${what}`, unit: 'CPU ns/sample', value };
  });
}
