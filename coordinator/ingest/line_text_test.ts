import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatCarbon } from '#engine/write_decoder/lines/layout.ts';
import { WriteDecoder } from '#engine/write_decoder/write_decoder.ts';
import { SeededRandom } from '#test/seeded_random.ts';
import { pickOf } from '#test/sim/mutate.ts';
import { verdictBy } from './verdict.ts';
import { LineText } from './line_text.ts';

const reading = { format: formatCarbon, unitNanos: 1n, nowNanos: 1n };

class CountedDecoder extends WriteDecoder {
  reads = 0;

  override lines(...of: Parameters<WriteDecoder['lines']>): ReturnType<WriteDecoder['lines']> {
    this.reads += 1;
    return super.lines(...of);
  }
}

function decoder(): CountedDecoder {
  return new CountedDecoder({
    random: new SeededRandom(1),
    memoryBytesMax: 64 << 20,
    verdictOf: verdictBy('quoted'),
  });
}

/** Values of rows, and what is said of bad lines, of all that can be read now. */
function readAll(text: LineText): (number | string)[] {
  const all: (number | string)[] = [];
  for (let part = text.read(reading); part !== null; part = text.read(reading)) {
    if (part.rows !== null) all.push(...part.rows.values.subarray(0, part.rows.rowCount));
    all.push(...part.problems);
    text.advance();
  }
  return all;
}

test('however a text is cut, its lines are the same', () => {
  const lines = Array.from({ length: 3000 }, (_, i) =>
    i % 500 === 7 ? `a..${i} 1 1` : `servers.web${i}.cpu ${i} ${i}`,
  );
  const bytes = Buffer.from(lines.join('\n'));
  const whole = new LineText(decoder());
  whole.add(Buffer.from(bytes));
  whole.end();
  const expected = readAll(whole);
  assert.equal(expected.length, 3000);
  for (const [seed, chunkMax] of [1, 2, 50, 5000, 70_000].entries()) {
    const pick = pickOf(seed);
    const text = new LineText(decoder(), 4096);
    const all: (number | string)[] = [];
    for (let at = 0; at < bytes.length; ) {
      const end = Math.min(bytes.length, at + 1 + pick(chunkMax));
      text.add(Buffer.from(bytes.subarray(at, end)));
      if (pick(3) > 0) all.push(...readAll(text));
      at = end;
    }
    text.end();
    all.push(...readAll(text));
    for (const kind of ['number', 'string']) {
      const of = (each: number | string): boolean => typeof each === kind;
      assert.deepEqual(all.filter(of), expected.filter(of), `${kind}s of chunks up to ${chunkMax}`);
    }
    assert.equal(text.length, 0);
  }
});

test('a line that comes in pieces is read once, when its end is there', () => {
  const counted = decoder();
  const text = new LineText(counted);
  const path = 'a'.repeat(60_000);
  for (const byte of Buffer.from(`${path} 1 1`)) {
    text.add(Uint8Array.of(byte));
    assert.equal(text.read(reading), null);
  }
  assert.equal(counted.reads, 0);
  text.add(Buffer.from('\nb 2 2'));
  assert.deepEqual(readAll(text), [1]);
  assert.ok(counted.reads <= 2, `${counted.reads}`);
});

test('of a line without end no more is kept than it may have; the next one is read again', () => {
  const text = new LineText(decoder(), 1000);
  let mostBytes = 0;
  const all: (number | string)[] = [];
  for (let i = 0; i < 300; i++) {
    text.add(Buffer.alloc(100, 'x'));
    all.push(...readAll(text));
    mostBytes = Math.max(mostBytes, text.length);
  }
  assert.ok(mostBytes <= 1000, `${mostBytes}`);
  text.add(Buffer.from(' 1 1\nb 2 2\n'));
  all.push(...readAll(text));
  assert.match(String(all[0]), /^line 1, byte 1: line is longer than 1000 bytes/);
  assert.deepEqual(all.slice(1), [2]);
});

test('the rest of a text that breaks off is dropped', () => {
  const text = new LineText(decoder());
  text.add(Buffer.from('a 1 1\nb 2 2'));
  assert.deepEqual(readAll(text), [1]);
  assert.equal(text.drop(), true);
  assert.equal(text.drop(), false);
  assert.equal(text.length, 0);
});
