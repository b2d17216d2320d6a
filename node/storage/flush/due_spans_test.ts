import assert from 'node:assert/strict';
import { test } from 'node:test';
import { namespaceOf } from '../database_testing.ts';
import {
  bytesOfSeriesMax,
  dueSpans,
  type SpannedFile,
  spanNanosMaxOf,
  spanNanosOf,
  type SpanState,
} from './due_spans.ts';

const hourNanos = 3_600_000_000_000n;
const spanNanos = 8n * hourNanos;
/** Closed for a block's time more than the last of its blocks takes rows. */
const nowNanos = 1000n * spanNanos + spanNanos + 3n * hourNanos;

function file(block: bigint, more: Partial<SpannedFile> = {}): SpannedFile {
  const blockStartNanos = 1000n * spanNanos + block * 2n * hourNanos;
  return { shard: 0, isClosed: false, blockStartNanos, dataBytes: 100, seriesCount: 1, ...more };
}

function stateOf(files: readonly SpannedFile[], more: Partial<SpanState<SpannedFile>> = {}) {
  return {
    blockSizeNanos: 2n * hourNanos,
    retentionNanos: 48n * hourNanos,
    spanNanosMax: spanNanosMaxOf(namespaceOf('samples')),
    waitsForAllBlocks: false,
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

test('a span is a power of two of a block, a quarter of the retention and twelve hours at most, or 720 windows', () => {
  const minuteNanos = hourNanos / 60n;
  const spanOf = (blockNanos: bigint, retentionHours: bigint, resolutionNanos: bigint | null) => {
    const attributes = { resolutionNanos: resolutionNanos ?? 0n, downsampleOptions: { all: true } };
    const aggregations = resolutionNanos === null ? null : [{ aggregated: true, attributes }];
    return spanNanosOf({
      blockSizeNanos: blockNanos,
      retentionNanos: retentionHours * hourNanos,
      spanNanosMax: spanNanosMaxOf(namespaceOf('any', { aggregations })),
    });
  };
  for (const [blockNanos, retentionHours, resolutionNanos, expected] of [
    [2n * hourNanos, 48n, null, spanNanos],
    [hourNanos, 1000n, null, 8n * hourNanos],
    [24n * hourNanos, 1000n, null, 24n * hourNanos],
    [30n * minuteNanos, 12n, null, 2n * hourNanos],
    [hourNanos, 24n, null, 4n * hourNanos],
    [24n * hourNanos, 8760n, hourNanos, 16n * 24n * hourNanos],
    [24n * hourNanos, 2160n, 5n * minuteNanos, 48n * hourNanos],
    [24n * hourNanos, 168n, hourNanos, 24n * hourNanos],
    [2n * hourNanos, 168n, minuteNanos / 4n, 8n * hourNanos],
  ] as const) {
    assert.equal(spanOf(blockNanos, retentionHours, resolutionNanos), expected);
  }
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

test('a span of windows waits until it has all blocks', () => {
  assert.ok(isDue({ waitsForAllBlocks: true }));
  const some = stateOf(all.slice(1), { waitsForAllBlocks: true });
  assert.equal(dueSpans(some, nowNanos).length, 0);
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
