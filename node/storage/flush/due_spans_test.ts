import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  bytesOfSeriesMax,
  dueSpans,
  type SpannedFile,
  spanNanosOf,
  type SpanState,
} from './due_spans.ts';

const hourNanos = 3_600_000_000_000n;
const spanNanos = 8n * hourNanos;
/** Closed for a block's time more than the last of its blocks takes rows. */
const nowNanos = 1000n * spanNanos + spanNanos + 3n * hourNanos;

function file(block: bigint, more: Partial<SpannedFile> = {}): SpannedFile {
  const blockStartNanos = 1000n * spanNanos + block * 2n * hourNanos;
  return { shard: 0, blockStartNanos, dataBytes: 100, seriesCount: 1, ...more };
}

function stateOf(files: readonly SpannedFile[], more: Partial<SpanState<SpannedFile>> = {}) {
  return {
    blockSizeNanos: 2n * hourNanos,
    retentionNanos: 48n * hourNanos,
    bufferPastNanos: hourNanos,
    expiredBeforeNanos: 0n,
    files,
    readyShards: new Set([0, 1]),
    isClean: () => true,
    blocksInMemory: () => [],
    ...more,
  };
}

const all = [file(0n), file(1n), file(2n), file(3n)];
const isDue = (more: Partial<SpanState<SpannedFile>>, at = nowNanos) =>
  dueSpans(stateOf(all, more), at).length === 1;

test('a span is a quarter of the retention and twelve hours at most', () => {
  assert.equal(spanNanosOf(2n * hourNanos, 48n * hourNanos), spanNanos);
  assert.equal(spanNanosOf(hourNanos, 1000n * hourNanos), 8n * hourNanos);
  assert.equal(spanNanosOf(24n * hourNanos, 1000n * hourNanos), 24n * hourNanos);
});

test('filesets of one shard and span are brought together', () => {
  const other = [file(1n, { shard: 1 }), file(2n, { shard: 1 })];
  const next = [file(4n), file(5n)];
  const due = dueSpans(stateOf([...all, ...other, ...next]), nowNanos);
  assert.deepEqual(
    due.map(({ shard, files }) => [shard, files.length]),
    [
      [0, 4],
      [1, 2],
    ],
  );
  assert.ok(due.every(({ startNanos }) => startNanos === 1000n * spanNanos));
});

test('a span waits until its last block is closed for a block more, and all of it is flushed', () => {
  assert.ok(isDue({}));
  assert.ok(!isDue({}, nowNanos - 1n));
  assert.ok(!isDue({ blocksInMemory: () => [all[2]!.blockStartNanos] }));
  assert.ok(isDue({ blocksInMemory: () => [1001n * spanNanos] }), 'the next one is in memory');
});

test('what is damaged, not ready, about to expire, long or alone is left as it is', () => {
  assert.ok(!isDue({ isClean: (one) => one !== all[1] }));
  assert.ok(!isDue({ readyShards: new Set([1]) }));
  assert.ok(isDue({ expiredBeforeNanos: 999n * spanNanos }));
  assert.ok(!isDue({ expiredBeforeNanos: 999n * spanNanos + 1n }));
  const dataBytes = bytesOfSeriesMax;
  assert.ok(isDue({ files: all.map((one) => ({ ...one, dataBytes })) }));
  assert.ok(!isDue({ files: all.map((one) => ({ ...one, dataBytes: dataBytes + 1 })) }));
  assert.ok(!isDue({ files: [all[0]!] }));
  assert.ok(!isDue({ blockSizeNanos: 12n * hourNanos }), 'blocks are long enough');
});
