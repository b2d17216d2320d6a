import { test } from 'node:test';
import { deepEqual, equal } from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { adviseHugePages } from './huge_pages.ts';

const wasmPageBytes = 65_536;
const hasHugePages = existsSync('/sys/kernel/mm/transparent_hugepage/enabled');

/** KiB of the mappings of this process that may have huge pages. */
function advisedKib(): number {
  if (!hasHugePages) return 0;
  const mappings = /^Size: +(?<kib>\d+) kB$(?:(?!^Size:)[^])*?^VmFlags:(?<flags>.*)$/gm;
  let kib = 0;
  for (const { groups } of readFileSync('/proc/self/smaps', 'utf8').matchAll(mappings)) {
    if (groups!['flags']!.split(' ').includes('hg')) kib += Number(groups!['kib']);
  }
  return kib;
}

for (const shared of [false, true]) {
  test(`adviseHugePages() reaches over what a ${shared ? 'shared' : 'lone'} memory grows by, and no further`, () => {
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 4096, shared });
    const before = advisedKib();
    const start = 2 * wasmPageBytes;
    const bytes = 4094 * wasmPageBytes;
    equal(adviseHugePages(memory, start, bytes), hasHugePages);
    const wanted = hasHugePages ? bytes / 1024 : 0;
    equal(advisedKib() - before, wanted);
    memory.grow(2000);
    equal(advisedKib() - before, wanted);
  });
}

test('adviseHugePages() of nothing does nothing', () => {
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: false });
  equal(adviseHugePages(memory, wasmPageBytes, 0), false);
});

test('adviseHugePages() leaves other warnings alone and adds none', () => {
  const module = JSON.stringify(new URL('./huge_pages.ts', import.meta.url).href);
  const script = `
    const { adviseHugePages } = await import(${module});
    adviseHugePages(new WebAssembly.Memory({ initial: 1, maximum: 1 }), 0, 65536);
    process.emitWarning('of the test');`;
  const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    encoding: 'utf8',
  });
  deepEqual(stderr.match(/Warning: .*/g), ['Warning: of the test']);
});
