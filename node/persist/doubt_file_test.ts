import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { crc32c } from '#lib/hashing/crc32c.ts';
import { realEnv } from '#lib/env/real.ts';
import fc from '#test/property_testing.ts';
import { readLedger, type StoredLedger, writeLedger } from './doubt_file.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-doubt-'));
after(() => rmSync(folder, { recursive: true }));
const { disk } = realEnv;

function ledgerOf(blocks: StoredLedger['doubts'][number]['blocks']): StoredLedger {
  const doubt = { cause: 'commitlog-3.db', foundNanos: -5n, namespace: 'metrics', blocks };
  return { sequence: 7, doubts: [doubt] };
}

test('whatever blocks are in doubt, they are read as they were written', async () => {
  const starts = fc.uniqueArray(fc.bigInt({ min: -(2n ** 40n), max: 2n ** 62n }), { minLength: 1 });
  const regular = fc
    .record({
      first: fc.bigInt({ min: 0n, max: 2n ** 60n }),
      count: fc.integer({ min: 1, max: 50 }),
    })
    .map(({ first, count }) => Array.from({ length: count }, (_, i) => first + BigInt(i) * 7200n));
  const lists = fc.array(fc.oneof(starts, regular), { minLength: 1, maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(lists, async (all) => {
      const blocks = new Map(all.map((list, shard) => [shard, new Set(list)]));
      await writeLedger(disk, folder, ledgerOf(blocks));
      const read = (await readLedger(disk, folder)) as StoredLedger;
      const sorted = ({ doubts }: StoredLedger) =>
        [...doubts[0]!.blocks]
          .map(([shard, set]) => [shard, [...set].map(String).sort()] as const)
          .sort(([a], [b]) => a - b);
      assert.deepEqual(sorted(read), sorted(ledgerOf(blocks)));
      assert.deepEqual(
        { ...read.doubts[0]!, blocks: null },
        { ...ledgerOf(blocks).doubts[0]!, blocks: null },
      );
    }),
    { numRuns: 100 },
  );
});

test('a million blocks at one distance take some bytes for each shard', async () => {
  const blocks = new Map<number, Set<bigint>>();
  for (let shard = 0; shard < 1000; shard += 1) {
    // Each shard has got other blocks back.
    const count = 1000 - (shard % 300);
    blocks.set(shard, new Set(Array.from({ length: count }, (_, i) => BigInt(i) * 7_200_000n)));
  }
  await writeLedger(disk, folder, ledgerOf(blocks));
  assert.ok(statSync(join(folder, 'doubts-0.json')).size < 50_000);
});

test('a run that is none is damage', async () => {
  await writeLedger(disk, folder, ledgerOf(new Map([[0, new Set([10n, 20n, 30n])]])));
  for (const name of ['doubts-0.json', 'doubts-1.json']) {
    const [, json] = readFileSync(join(folder, name), 'utf8').split('\n');
    const wrong = json!.replace('["10","30","10"]', '["10","31","10"]');
    assert.notEqual(wrong, json);
    const checksum = crc32c(Buffer.from(wrong)).toString(16).padStart(8, '0');
    writeFileSync(join(folder, name), `${checksum}\n${wrong}\n`);
  }
  assert.match(JSON.stringify(await readLedger(disk, folder)), /not a run of blocks: 10 31 10/);
});
