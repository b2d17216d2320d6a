import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { decodeSnappy } from '#engine/write_decoder/snappy.ts';
import { type BackfillSource, fileSource, madeSource, seriesSource } from './backfill_data.ts';
import { compareAnswers, makeQueries } from './backfill_queries.ts';

const options = { seriesCount: 3, scrapes: 100, intervalMillis: 60_000, endMillis: 1.79e12 };

function samplesOf(source: BackfillSource, fromPart: number): number {
  let samples = 0;
  for (const frame of source.frames(fromPart)) samples += frame.samples;
  return samples;
}

test('sources give all of their samples, or the last part of them', () => {
  for (const source of [madeSource(options), seriesSource(options)]) {
    assert.equal(source.samples, 300);
    assert.equal(samplesOf(source, 0), 300);
    assert.equal(samplesOf(source, 0.9), 30);
  }
});

test('both orders have the same bytes of each sample', () => {
  const begin = String.fromCharCode(0x12, 0x10, 0x09);
  const sampleAt = (source: BackfillSource): Set<string> => {
    const found = new Set<string>();
    for (const { body } of source.frames(0)) {
      const raw = Buffer.from(decodeSnappy(body, 1 << 24)).toString('latin1');
      // A sample is a field of 16 bytes: its value, then its time.
      for (let at = raw.indexOf(begin); at !== -1; at = raw.indexOf(begin, at + 1)) {
        found.add(raw.slice(at, at + 18));
      }
    }
    return found;
  };
  const byTime = sampleAt(madeSource(options));
  assert.ok(byTime.size > 100);
  assert.deepEqual(sampleAt(seriesSource(options)), byTime);
});

test('frames of a file are read as they were written', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-frames-'));
  try {
    const path = join(folder, 'frames.rw');
    const frames = [...madeSource(options).frames(0)];
    const header = ({ samples, body }: { samples: number; body: Buffer }): Buffer => {
      const bytes = Buffer.alloc(8);
      bytes.writeUInt32LE(body.length, 0);
      bytes.writeUInt32LE(samples, 4);
      return bytes;
    };
    writeFileSync(path, Buffer.concat(frames.flatMap((frame) => [header(frame), frame.body])));
    const source = fileSource(path, { startMillis: 0, endMillis: 1 });
    assert.equal(source.samples, 300);
    assert.deepEqual([...source.frames(0)], frames);
    assert.deepEqual([...source.frames(0.9)], frames.slice(90));
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('answers are compared by labels, times and values', () => {
  const answer = (value: string, time = 10): string =>
    JSON.stringify({ data: { result: [{ metric: { a: 'b', c: 'd' }, values: [[time, value]] }] } });
  assert.deepEqual(compareAnswers(answer('1'), answer('1')), { difference: null, points: 1 });
  assert.equal(compareAnswers(answer('1.0000000000001'), answer('1')).difference, null);
  assert.equal(compareAnswers(answer('NaN'), answer('NaN')).difference, null);
  for (const other of [answer('1.001'), answer('1', 20), '{"data":{"result":[]}}', answer('NaN')]) {
    assert.notEqual(compareAnswers(answer('1'), other).difference, null);
    assert.notEqual(compareAnswers(other, answer('1')).difference, null);
  }
});

test('the same queries are made each time, inside the span', () => {
  const span = { startMillis: 1e12, endMillis: 1e12 + 40 * 86_400_000 };
  const queries = makeQueries(100, ['a', 'b'], span);
  assert.deepEqual(queries, makeQueries(100, ['a', 'b'], span));
  assert.ok(new Set(queries.map(({ text }) => text)).size > 15);
  for (const { startSeconds, endSeconds, text } of queries) {
    assert.ok(startSeconds * 1000 >= span.startMillis && endSeconds * 1000 <= span.endMillis);
    assert.doesNotMatch(text, /[MR]/);
  }
});
