import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { once } from 'node:events';
import { test } from 'node:test';
import { openEtcdKv } from '#cluster/kv/etcd.ts';
import { finishedFormatsKey } from '#cluster/kv/keys.ts';
import { realEnv } from '#lib/env/real.ts';
import { formatLevelNewest } from '#lib/format_level.ts';
import { silentLog } from '#lib/log.ts';
import { startEmbedded } from '#test/conformance/kv_suite_servers.ts';

/** Runs the coordinator with a configuration that cannot work, to its end. */
function outcome(text: string): {
  readonly code: number | null;
  readonly error: string;
  readonly output: string;
} {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-coordinator-'));
  try {
    const file = join(folder, 'tsdb.yml');
    writeFileSync(file, text);
    const main = join(import.meta.dirname, 'main.ts');
    const { status, stdout, stderr } = spawnSync(process.execPath, [main, '-f', file], {
      encoding: 'utf8',
      timeout: 30_000,
    });
    return { code: status, error: stderr.replaceAll(file, 'tsdb.yml'), output: stdout };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test('a mistake in the configuration ends the coordinator with one line for each', () => {
  const { code, error } = outcome('listenAdress: ":1"\nlookbackDuration: 5\n');
  assert.equal(code, 1);
  assert.equal(
    error,
    'tsdb.yml:2: lookbackDuration: not a duration such as "48h", "30m" or "10s": 5\n' +
      'tsdb.yml:1: listenAdress: unknown key; did you mean listenAddress?\n',
  );
});

test('an address that is taken ends the coordinator with one line', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as { port: number };
  try {
    const { code, error } = outcome(
      `listenAddress: 127.0.0.1:${port}\nmetrics: {prometheus: {listenAddress: "127.0.0.1:0"}}\n`,
    );
    assert.equal(code, 1);
    assert.equal(
      error,
      `cannot start: cannot listen on 127.0.0.1:${port}: another program has this port (set by listenAddress of coordinator:)\n`,
    );
  } finally {
    taken.close();
  }
});

test('a coordinator of a release that cannot read what the cluster writes ends, and says why', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-coordinator-kv-'));
  try {
    await using store = await startEmbedded(folder);
    const cluster = { environment: 'test', zone: 'embedded' };
    await using kv = openEtcdKv({ endpoints: [store.endpoint], env: realEnv, log: silentLog });
    const value = new TextEncoder().encode('{"level":99}');
    const put = { kind: 'put', key: finishedFormatsKey(cluster), value } as const;
    await kv.transact([], [put], new AbortController().signal);
    const endpoints = `tsdbCluster: {env: test, zone: embedded, endpoints: ["${store.endpoint}"]}`;
    const { code, output } = outcome(
      `listenAddress: 127.0.0.1:0\nmetrics: {prometheus: {listenAddress: "127.0.0.1:0"}}\n` +
        `discovery: {type: tsdb_cluster, ${endpoints}}\n`,
    );
    assert.equal(code, 1);
    const why = `the cluster writes formats of level 99, and this release reads levels up to ${formatLevelNewest}`;
    assert.ok(output.includes(why), output);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
