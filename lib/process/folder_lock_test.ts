import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { lockFolder } from './folder_lock.ts';

const root = mkdtempSync(join(tmpdir(), 'tsdb-lock-'));
after(() => rmSync(root, { recursive: true, force: true }));
const module = join(import.meta.dirname, 'folder_lock.ts');

function folderOf(name: string): string {
  const folder = join(root, name);
  mkdirSync(folder);
  return folder;
}

/** A process that says what it got, and stays. */
function locker(folder: string): ChildProcess {
  const code = `import(${JSON.stringify(module)}).then(async ({ lockFolder }) => {
    globalThis.held = await lockFolder(${JSON.stringify(folder)}, 0, () => {}, new AbortController().signal);
    console.log(held === null ? 'taken' : 'held');
    setInterval(() => {}, 1000);
  });`;
  const child = spawn(process.execPath, ['-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  after(() => child.kill('SIGKILL'));
  return child;
}

async function saidBy(child: ChildProcess): Promise<string> {
  const [said] = (await once(child.stdout!, 'data')) as [Buffer];
  return said.toString().trim();
}

const never = new AbortController().signal;
const lockNow = (folder: string) => lockFolder(folder, 0, () => {}, never);

for (const name of ['short', 'long'.repeat(40)]) {
  test(`one process has a folder until it ends, a ${name.slice(0, 5)} path`, async () => {
    const folder = folderOf(name);
    const first = locker(folder);
    assert.equal(await saidBy(first), 'held');
    assert.equal(await lockNow(folder), null);
    // One that is stopped still has it.
    first.kill('SIGSTOP');
    assert.equal(await lockNow(folder), null);
    const waits = Promise.withResolvers<void>();
    const waiting = lockFolder(folder, 30_000, waits.resolve, never);
    // Before it ends, however slow this process is.
    await waits.promise;
    first.kill('SIGKILL');
    await once(first, 'exit');
    const lock = (await waiting) as AsyncDisposable;
    assert.equal(readdirSync(folder).length, 1);
    assert.equal(await lockNow(folder), null);
    await lock[Symbol.asyncDispose]();
    assert.deepEqual(readdirSync(folder), []);
  });
}

test('of many that come at once after an end one has it, and then the next', async () => {
  const folder = folderOf('many');
  const first = locker(folder);
  assert.equal(await saidBy(first), 'held');
  first.kill('SIGKILL');
  await once(first, 'exit');
  let held = 0;
  const taken = Array.from({ length: 5 }, async () => {
    await using lock = (await lockFolder(
      folder,
      60_000,
      () => {},
      never,
    )) as AsyncDisposable | null;
    assert.ok(lock !== null);
    held += 1;
    assert.equal(held, 1);
    await sleep(20);
    held -= 1;
  });
  await Promise.all(taken);
});
