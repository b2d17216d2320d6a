/** Every fuzz and every benchmark runs small with the tests, so that none of them rots. */
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { BenchResult, BenchSize } from '#test/benchmark.ts';

const root = join(import.meta.dirname, '..');
const rooms = '{lib,engine,cluster,kv,node,coordinator,aggregator,operator,tsdbctl}';

for (const file of globSync(`${rooms}/**/*_fuzz.ts`, { cwd: root }).sort()) {
  test(`${file} holds for three seeds`, async () => {
    const module = (await import(join(root, file))) as {
      fuzz: (seed: number, size: number) => void | Promise<void>;
    };
    for (const seed of [1, 2, 3]) await module.fuzz(seed, 20);
  });
}

for (const file of globSync(`${rooms}/**/*_bench.ts`, { cwd: root }).sort()) {
  test(`${file} runs and gives figures`, async () => {
    const module = (await import(join(root, file))) as {
      bench: (size: BenchSize) => Promise<BenchResult[]>;
    };
    const results = await module.bench('small');
    assert.ok(results.length > 0);
    for (const { name, unit, value } of results) {
      assert.ok(name !== '' && unit !== '');
      assert.ok(Number.isFinite(value) && value >= 0, `${name}: ${value}`);
    }
  });
}
