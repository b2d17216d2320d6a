import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { startEmbedded } from '#test/conformance/kv_suite_servers.ts';

const main = join(import.meta.dirname, 'main.ts');

async function withFile(text: string, act: (file: string) => Promise<void> | void): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-aggregator-'));
  try {
    const file = join(folder, 'tsdb.yml');
    writeFileSync(file, text);
    await act(file);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test('a mistake in the configuration ends the aggregator with one line for each', async () => {
  await withFile('httpListenAdress: ":1"\nhostID: {resolver: environment}\n', (file) => {
    const { status, stderr } = spawnSync(process.execPath, [main, '-f', file], {
      encoding: 'utf8',
      timeout: 30_000,
    });
    assert.equal(status, 1);
    assert.equal(
      stderr.replaceAll(file, 'tsdb.yml'),
      'tsdb.yml:2: hostID.envVarName: is required by resolver environment\n' +
        'tsdb.yml:1: httpListenAdress: unknown key; did you mean httpListenAddress?\n',
    );
  });
});

test('an aggregator starts before its placement is there, says how it is, and ends when it is told to', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-aggregator-kv-'));
  try {
    await using store = await startEmbedded(folder);
    const endpoints = `tsdbCluster: {env: test, zone: embedded, endpoints: ["${store.endpoint}"]}`;
    const text = `
aggregator:
  listenAddress: 127.0.0.1:0
  httpListenAddress: 127.0.0.1:0
  metrics: {prometheus: {listenAddress: "127.0.0.1:0"}}
  logging: {encoding: json}
  hostID: {resolver: config, value: a0}
  discovery: {type: tsdb_cluster, ${endpoints}}
`;
    await withFile(text, async (file) => {
      const process_ = spawn(process.execPath, [main, '-f', file], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      let output = '';
      let started: { readonly http: string; readonly metrics: string } | null = null;
      for await (const chunk of process_.stdout) {
        output += chunk;
        const line = output.split('\n').find((one) => one.includes('"started"'));
        if (line === undefined) continue;
        started = JSON.parse(line);
        break;
      }
      assert.ok(started !== null, output);
      const status = await (await fetch(`http://${started.http}/status`)).json();
      assert.deepEqual(status, {
        status: { flushStatus: { electionState: 'follower', canLead: false } },
      });
      const metrics = await (await fetch(`http://${started.metrics}/metrics`)).text();
      assert.match(metrics, /^tsdb_rollups_leader 0$/m);
      process_.kill('SIGTERM');
      const [code] = (await once(process_, 'exit')) as [number];
      assert.equal(code, 0);
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
