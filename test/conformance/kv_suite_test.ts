/** The key-value suite against each store that can be had. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openEtcdKv } from '#cluster/kv_etcd.ts';
import { MemoryKvStore } from '#cluster/kv_memory.ts';
import { connectGrpc, loadProto } from '#lib/env/grpc.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { openEmbeddedKv } from '#kv/server.ts';
import { toolOrSkip } from '#test/tools.ts';
import { type KvFixture, kvSuite } from './kv_suite.ts';

const never = new AbortController().signal;

kvSuite('the memory adapter', async () => {
  const store = new MemoryKvStore({ clock: realEnv.clock });
  return {
    client: () => store.client(),
    compact: async () => store.compact(),
    [Symbol.asyncDispose]: async () => {},
  };
});

kvSuite('the embedded store behind the etcd adapter', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tsdb-kv-'));
  const server = await openEmbeddedKv({ folder, port: 0, env: realEnv, log: silentLog });
  return etcdFixture(server.endpoint, async () => {
    await server[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });
});

const etcd = toolOrSkip('etcd', 'the key-value suite does not run against a real etcd');
if (etcd !== null) {
  kvSuite('a real etcd behind the etcd adapter', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'tsdb-etcd-'));
    const [clientPort, peerPort] = [await freePort(), await freePort()];
    const clientUrl = `http://127.0.0.1:${clientPort}`;
    const peerUrl = `http://127.0.0.1:${peerPort}`;
    const child = spawn(
      etcd,
      [
        ['--data-dir', folder],
        ['--listen-client-urls', clientUrl],
        ['--advertise-client-urls', clientUrl],
        ['--listen-peer-urls', peerUrl],
        ['--initial-advertise-peer-urls', peerUrl],
        ['--initial-cluster', `default=${peerUrl}`],
        ['--unsafe-no-fsync'],
      ].flat(),
      { stdio: 'ignore' },
    );
    const endpoint = `127.0.0.1:${clientPort}`;
    await untilAnswered(endpoint);
    return etcdFixture(endpoint, async () => {
      child.kill('SIGKILL');
      await once(child, 'exit');
      await rm(folder, { recursive: true });
    });
  });
}

function etcdFixture(endpoint: string, dispose: () => Promise<void>): KvFixture {
  return {
    client: () => openEtcdKv({ endpoints: [endpoint], env: realEnv, log: silentLog }),
    async compact() {
      await using kv = openEtcdKv({ endpoints: [endpoint], env: realEnv, log: silentLog });
      const { revision } = await kv.list('none/', never);
      const schema = loadProto(new URL('../../kv/etcd.proto', import.meta.url));
      using client = connectGrpc({ target: endpoint, answerBytesMax: 1_000_000 });
      const request = schema.codec('etcdserverpb.CompactionRequest').encode({ revision });
      await client.unary('/etcdserverpb.KV/Compact', request, never);
    },
    [Symbol.asyncDispose]: dispose,
  };
}

async function untilAnswered(endpoint: string): Promise<void> {
  await using kv = openEtcdKv({ endpoints: [endpoint], env: realEnv, log: silentLog });
  for (let attempt = 0; attempt < 200; attempt += 1) {
    try {
      await kv.get('ready', never);
      return;
    } catch {
      await realEnv.clock.sleep(50, never);
    }
  }
  assert.fail(`etcd at ${endpoint} does not answer`);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert(address !== null && typeof address === 'object');
  server.close();
  await once(server, 'close');
  return address.port;
}
