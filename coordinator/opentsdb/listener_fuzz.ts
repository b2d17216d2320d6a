/**
 * Commands of a connection, whole and damaged, cut into reads at any byte, must come to the rows, answers and refusals that each
 * comes to by itself.
 */
import assert from 'node:assert/strict';
import { TsdbError } from '#lib/errors.ts';
import { countInputs } from '#test/sim/counts.ts';
import { damaged, type Pick, pickOf } from '#test/sim/mutate.ts';
import { RowsOfDecoder } from '../ingest/rows_testing.ts';
import { linesOfCommands } from './listener.ts';
import {
  metrics,
  millisOf,
  numberText,
  rowOf,
  some,
  tagNames,
  tagValues,
  timeText,
  valueOf,
} from './points_testing.ts';

const readBytesMax = 4000;
/** Longer than what has come without its end when the last read of it comes. */
const longBytes = 8192 + readBytesMax + 1;
const never = new AbortController().signal;
const clock = { monotonicMillis: () => 0, sleep: () => Promise.resolve() };

function commandOf(pick: Pick): string {
  if (pick(12) === 0) {
    return some(pick, [
      'version',
      'help',
      'exit now',
      'exit',
      '',
      ' ',
      'stats',
      'putt',
      'put',
      '\ufffd',
    ]);
  }
  if (pick(400) === 0) return `put m 1 1 a=${'x'.repeat(longBytes)}`;
  const tags = Array.from({ length: pick(4) }, () => {
    const equals = pick(20) === 0 ? '' : '=';
    return `${some(pick, tagNames)}${equals}${some(pick, tagValues)}`;
  });
  const words = ['put', some(pick, metrics), timeText(pick), numberText(pick), ...tags];
  return words.join(some(pick, [' ', ' ', '\t', '  ']));
}

interface Expected {
  readonly rows: string[];
  refused: number;
  answers: number;
  /** The first line is one of HTTP. */
  fails: boolean;
}

/** Line by line. */
function expectedOf(bytes: Buffer): Expected {
  const expected: Expected = { rows: [], refused: 0, answers: 0, fails: false };
  for (let at = 0; at < bytes.length; ) {
    const lineFeed = bytes.indexOf(10, at);
    const end = lineFeed < 0 ? bytes.length : lineFeed;
    const isLong = end - at >= longBytes;
    const text = bytes.subarray(at, end).toString();
    const line = lineFeed >= 0 && text.endsWith('\r') ? text.slice(0, -1) : text;
    if (at === 0 && / HTTP\/[0-9]\.[0-9]$/.test(line)) return { ...expected, fails: true };
    at = end + 1;
    const words = line
      .replaceAll('\t', ' ')
      .split(' ')
      .filter((word) => word.length > 0);
    if (isLong) expected.refused += 1;
    else if (words[0] === 'exit') return expected;
    else if (words[0] === 'version' || words[0] === 'help') expected.answers += 1;
    else if (words[0] === 'put') add(expected, words.slice(1), line);
    else if (words.length > 0) {
      expected.refused += 1;
      expected.answers += 1;
    }
  }
  return expected;
}

function add(expected: Expected, [metric, time, value, ...tags]: string[], line: string): void {
  const isWhole = value !== undefined && !line.includes('\ufffd');
  const pairs = tags.map((tag) => [tag.split('=')[0]!, tag.slice(tag.indexOf('=') + 1)] as const);
  const isPaired = tags.every((tag) => tag.includes('='));
  const row = isWhole && isPaired ? rowOf(metric!, millisOf(time!), valueOf(value), pairs) : null;
  if (row !== null) expected.rows.push(row);
  else expected.refused += 1;
  const [millis, number] = isWhole ? [millisOf(time!), valueOf(value)] : [null, null];
  const isBadTag = !isPaired || pairs.some((pair) => pair.includes(''));
  if (millis === null || number === null || isBadTag) expected.answers += 1;
}

function textOf(pick: Pick): Buffer {
  const lines = Array.from(
    { length: pick(12) },
    () => commandOf(pick) + some(pick, ['\n', '\r\n']),
  );
  if (pick(30) === 0)
    lines.unshift(some(pick, ['GET / HTTP/1.1\r\n', ' HTTP/1.1\n', 'x HTTP/1.1 \n']));
  const text = Buffer.from(lines.join(''));
  // Whether a line is too long shows in what it is made of alone.
  const isLong = text.length > longBytes;
  return isLong || pick(3) > 0 ? text : Buffer.from(damaged(pick, text));
}

async function* readsOf(pick: Pick, bytes: Buffer): AsyncGenerator<Uint8Array> {
  const most = pick(4) === 0 ? 40 : readBytesMax;
  for (let at = 0; at < bytes.length; ) {
    const end = at + 1 + pick(most);
    yield bytes.subarray(at, end);
    at = end;
  }
}

export async function fuzz(seed: number, size: number): Promise<void> {
  const pick = pickOf(seed);
  const decoded = new RowsOfDecoder(pick);
  for (let round = 0; round < size; round += 1) {
    const bytes = textOf(pick);
    const where = `seed ${seed}, text ${round}: ${JSON.stringify(bytes.toString().slice(0, 500))}`;
    const expected = expectedOf(bytes);
    let refused = 0;
    const streams = { refuse: (_format: string, count: number) => (refused += count) };
    let answers = '';
    const answer = (text: string) => (answers += text);
    const texts: Uint8Array[] = [];
    let fails = false;
    try {
      const options = { streams, clock, version: '1' };
      for await (const text of linesOfCommands(readsOf(pick, bytes), options, never, answer)) {
        texts.push(text);
      }
    } catch (error) {
      assert.ok(error instanceof TsdbError && error.code === 'BAD_REQUEST', `${where}: ${error}`);
      fails = true;
    }
    assert.equal(fails, expected.fails, where);
    const { rows, refused: ofRows } = decoded.ofText(Buffer.concat(texts));
    assert.deepEqual(rows, expected.rows, where);
    assert.equal(refused + ofRows, expected.refused, where);
    assert.equal(answers.split('\n').length - 1, expected.answers, where);
    countInputs('commands of OpenTSDB', 1 + bytes.filter((byte) => byte === 10).length);
  }
}
