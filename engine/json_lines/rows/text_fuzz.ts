/** Bodies of lines in chunks that are cut anywhere: the rows of the kernel and of its twin are those of the lines, one by one. */
import assert from 'node:assert/strict';
import { encodeTags, legacyTagRules, type Tag, tagsProblem } from '#lib/tags.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { countInputs } from '#test/sim/counts.ts';
import { openReader } from '../../otlp/otlp_testing.ts';
import { LabelSeries } from '../series.ts';
import { damaged, rowText } from './scan_fuzz.ts';
import { rowOf } from './scan_twin.ts';
import { JsonRowText, type ParsedFloat } from './text.ts';

export function fuzz(seed: number, size: number): void {
  const random = new SeededRandom(seed);
  const all = [false, true].map((withTwin) => {
    const { decoder } = openReader({}, withTwin);
    return new LabelSeries(decoder, legacyTagRules, new SeededRandom(seed), 1 << 20);
  });
  for (let round = 0; round < size; round++) {
    countInputs('texts of rows of JSON');
    const lines = Array.from({ length: random.below(12) }, () => {
      const text = rowText(random);
      return random.below(3) === 0 ? damaged(random, text) : text;
    });
    const body = Buffer.from(lines.join(random.pick(['\n', '\r\n', '\n\n'])));
    const expected = lines.map(parsed).filter((row) => typeof row !== 'string');
    for (const series of all) assert.deepEqual(rowsOf(series, body, random), expected.map(shown));
  }
}

function rowsOf(series: LabelSeries, body: Buffer, random: SeededRandom): string[] {
  const found: string[] = [];
  const text = new JsonRowText<never>(series, (line) => parsed(Buffer.from(line).toString()));
  const read = (): void => {
    for (let part = text.read(); part !== null; part = text.read()) {
      const { rows } = part;
      if (rows === null) continue;
      for (let row = 0; row < rows.rowCount; row++) {
        const nanos = rows.timestamps[row]! * BigInt(rows.timeUnitNanos);
        const tags = Buffer.from(series.decoder.tags(rows.slots[row]!)).toString('hex');
        found.push(`${tags} ${nanos} ${numberText(rows.values[row]!)}`);
      }
    }
  };
  for (let at = 0; at < body.length; ) {
    const end = at + 1 + random.below(200);
    text.add(body.subarray(at, end));
    read();
    at = end;
  }
  text.end();
  read();
  return found;
}

function parsed(line: string): ParsedFloat | string {
  const row = rowOf(line.trim());
  if (row === null) return 'it is none';
  const tags: Tag[] = [];
  for (const [name, value] of Object.entries(JSON.parse(row.tags) as object)) {
    if (typeof value !== 'string') return 'a tag is no text';
    tags.push({ name, value });
  }
  return tagsProblem(tags) ?? { ...row, tags };
}

function shown({ tags, timestampNanos, value }: ParsedFloat): string {
  return `${Buffer.from(encodeTags(tags)).toString('hex')} ${timestampNanos} ${numberText(value)}`;
}

function numberText(value: number): string {
  return Object.is(value, -0) ? '-0' : String(value);
}
