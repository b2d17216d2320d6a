/** How `npm start` ends: by Ctrl-C in a terminal, which every process of the group gets. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { lockFolder, lockPrefix } from '#lib/process/folder_lock.ts';
import { createLocalDatabase, eventually, NodeServer } from './process.ts';

const root = join(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'tsdb-stop-'));
const server = await NodeServer.create({ folder });
const dataFolder = join(folder, 'data');
let shell: ChildProcess | null = null;
after(() => {
  if (shell !== null && shell.exitCode === null && shell.signalCode === null) {
    process.kill(-shell.pid!, 'SIGKILL');
  }
  rmSync(folder, { recursive: true, force: true });
});

/** `npm start` as the leader of a group of processes, as a terminal starts it. */
async function npmStart(): Promise<{ child: ChildProcess; output: () => string }> {
  const child = spawn('npm', ['start', '--', '-f', join(folder, 'tsdb.yml')], {
    cwd: root,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  shell = child;
  let text = '';
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.on('data', (bytes: Buffer) => {
      text += bytes.toString();
    });
  }
  await eventually('the node answers', async () => {
    if (child.exitCode !== null) throw new Error(`npm start has ended: ${text}`);
    return (await fetch(`${server.url}/health`)).ok;
  });
  return { child, output: () => text };
}

test('Ctrl-C on npm start ends it cleanly: a snapshot, no pid file', async () => {
  const { child, output } = await npmStart();
  await createLocalDatabase(server, 'default');
  const body = { tags: { __name__: 'up' }, timestamp: String(Date.now() / 1000), value: 1 };
  const url = `${server.url}/api/v1/json/write`;
  assert.ok((await fetch(url, { method: 'POST', body: JSON.stringify(body) })).ok);
  assert.ok(existsSync(join(dataFolder, 'tsdb.pid')));

  process.kill(-child.pid!, 'SIGINT');
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null];

  // The shell that npm puts between dies of Ctrl-C, and npm says so by dying of it too.
  assert.ok(code === 0 || signal === 'SIGINT', `${code} ${signal} ${output()}`);
  assert.equal(existsSync(join(dataFolder, 'tsdb.pid')), false);
  assert.notDeepEqual(readdirSync(join(dataFolder, 'snapshots')), []);
  assert.equal(output().match(/"msg":"stopping"/g)?.length, 1, output());
});

test('one process that is told to end exits with 0, and leaves nothing to read again', async () => {
  await server.start();
  await eventually('the data is loaded', async () => server.program.log().includes('disk loaded'));
  assert.equal(await server.program.stop('SIGINT'), 0, server.program.log());
  assert.match(server.program.log(), /"snapshotSeries":1,/);
  assert.match(server.program.log(), /"segments":0,"rows":0,/);
  assert.match(server.program.log(), /"lastStop":"clean"/);
});

test('a start says that the last stop was not clean, and what it reads again', async () => {
  const start = server.program.log().length;
  await server.start();
  // Before that the row is sent again with its own version, for files may have others of its time.
  await eventually('the data is loaded', async () =>
    server.program.log().slice(start).includes('disk loaded'),
  );
  const body = { tags: { __name__: 'up' }, timestamp: String(Date.now() / 1000), value: 2 };
  const url = `${server.url}/api/v1/json/write`;
  await eventually(
    'the write is taken',
    async () => (await fetch(url, { method: 'POST', body: JSON.stringify(body) })).ok,
  );
  await server.program.stop('SIGKILL');
  const before = server.program.log().length;
  await server.start();
  await eventually('the data is loaded', async () =>
    server.program.log().slice(before).includes('disk loaded'),
  );
  const log = server.program.log().slice(before);
  assert.match(log, /"level":"warn".*"lastStop":"unclean"/);
  assert.match(log, /"millis":\d+,"segments":1,"rows":1,"snapshotSeries":1,/);
  await server.program.stop('SIGKILL');
});

test('a start waits for a process of another container that has the data folder', async () => {
  await server.program.stop('SIGINT');
  const never = new AbortController().signal;
  const lock = (await lockFolder(dataFolder, 0, () => {}, never)) as AsyncDisposable | null;
  assert.ok(lock !== null);
  const start = server.program.log().length;
  const started = server.start();
  await eventually('it says that it waits', async () =>
    server.program.log().slice(start).includes('another process has the data folder: waiting'),
  );
  assert.doesNotMatch(server.program.log().slice(start), /storage node listens/);
  await lock[Symbol.asyncDispose]();
  await started;
  assert.equal(await server.program.stop('SIGKILL'), null);
  await server.start();
  const locks = readdirSync(dataFolder).filter((name) => name.startsWith(lockPrefix));
  assert.equal(locks.length, 1, 'the one that was killed has left none');
});
