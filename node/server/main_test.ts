/** What a node says when it cannot start: the setting, the reason and the value, in one line. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { once } from 'node:events';
import { after, test } from 'node:test';
import { freePorts } from '#test/ports.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-node-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a single node with settings below `db:` that cannot work, to its end. */
function outcome(dataFolder: string, settings = ''): readonly [number | null, string] {
  const file = join(folder, 'tsdb.yml');
  writeFileSync(file, `db:\n  filesystem: {filePathPrefix: ${dataFolder}}\n${settings}`);
  const main = join(import.meta.dirname, '../main.mjs');
  const { status, stderr } = spawnSync(process.execPath, [main, '-f', file], {
    encoding: 'utf8',
    timeout: 30_000,
  });
  return [status, stderr];
}

test('a data folder that is a file, or lies in one, is named with its setting', () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  for (const path of [file, join(file, 'data')]) {
    assert.deepEqual(outcome(path), [
      1,
      `cannot use ${path} as the data folder: it is a file, or lies in one (db.filesystem.filePathPrefix, or TSDB_DATA_DIR)\n`,
    ]);
  }
});

test('a port that is taken is named with its setting', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as { port: number };
  const [kv, grpc] = await freePorts(2);
  const reason = `cannot start: cannot listen on 127.0.0.1:${port}: another program has this port`;
  try {
    for (const [settings, setting] of [
      [`  kv: {listenAddress: "127.0.0.1:${port}"}\n`, 'db.kv.listenAddress'],
      [
        `  kv: {listenAddress: "127.0.0.1:${kv}"}\n  listenAddress: 127.0.0.1:${grpc}\n` +
          `  clusterListenAddress: 127.0.0.1:${port}\n`,
        'db.clusterListenAddress',
      ],
    ] as const) {
      const expected = [1, `${reason} (set by ${setting})\n`];
      assert.deepEqual(outcome(join(folder, 'data'), settings), expected);
    }
  } finally {
    taken.close();
  }
});
