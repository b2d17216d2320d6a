/** Rows of JSON writes alone, one a line, from bytes to rows. */
import { SeededRandom } from '#test/seeded_random.ts';
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { legacyTagRules } from '#lib/tags.ts';
import { openReader } from '../../otlp/otlp_testing.ts';
import { LabelSeries } from '../series.ts';
import { JsonRowText } from './text.ts';

const seriesCount = 1000;

function bodyOf(timeOf: (row: number) => number | string): Buffer {
  const lines = Array.from({ length: seriesCount }, (_, index) => {
    const tags = {
      __name__: 'http_requests_total',
      code: String(200 + (index % 5)),
      instance: `host-${index >> 3}.example.com:9100`,
      job: 'shop',
      method: 'GET',
    };
    const value = ((index * 37) % 10_000) / 100;
    return JSON.stringify({ tags, timestamp: timeOf(index), value });
  });
  return Buffer.from(lines.join('\n'));
}

function cpuNanosOfRow(series: LabelSeries, body: Buffer, rounds: number): number {
  let rows = 0;
  const before = process.cpuUsage();
  for (let round = 0; round < rounds; round++) {
    const text = new JsonRowText<never>(series, () => 'none of these');
    text.add(body);
    text.end();
    for (let part = text.read(); part !== null; part = text.read()) rows += part.rows!.rowCount;
  }
  const { user, system } = process.cpuUsage(before);
  return ((user + system) * 1000) / rows;
}

export async function bench(size: BenchSize): Promise<BenchResult[]> {
  const kinds = [
    ['seconds', (): number => 1_700_000_000],
    ['milliseconds', (row: number): number => 1_700_000_000 + (row % 1000) / 1000],
    ['RFC 3339', (): string => '2026-11-29T02:40:00Z'],
  ] as const;
  return kinds.map(([what, timeOf]) => {
    const body = bodyOf(timeOf);
    const values: number[] = [];
    for (let run = 0; run < (size === 'full' ? 5 : 1); run++) {
      const { decoder } = openReader();
      const series = new LabelSeries(decoder, legacyTagRules, new SeededRandom(1), 1 << 24);
      cpuNanosOfRow(series, body, 1);
      values.push(cpuNanosOfRow(series, body, size === 'full' ? 200 : 1));
    }
    const value = values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
    return { name: `engine/json_lines/rows: times in ${what}`, unit: 'CPU ns/sample', value };
  });
}
