/** The key-value suite against each store that can be had. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite } from 'node:test';
import { openEtcdKv } from '#cluster/kv/etcd.ts';
import { openLocalKv } from '#cluster/kv/local.ts';
import { MemoryKvStore } from '#cluster/kv/memory.ts';
import { connectGrpc } from '#lib/env/grpc.ts';
import { loadProto } from '#lib/env/proto.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { openEmbeddedKv } from '#kv/server.ts';
import { toolOrSkip } from '#test/tools.ts';
import { type KvFixture, kvSuite } from './kv_suite.ts';
import { startEtcd, untilAnswered } from './kv_suite_servers.ts';

const never = new AbortController().signal;

suite('key-value stores', { concurrency: true }, () => {
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

  kvSuite('the embedded store in its own process', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'tsdb-kv-'));
    const server = await openEmbeddedKv({ folder, port: 0, env: realEnv, log: silentLog });
    const overNetwork = etcdFixture(server.endpoint, async () => {});
    return {
      client: () => openLocalKv(server.local, realEnv.clock),
      compact: () => overNetwork.compact(),
      async [Symbol.asyncDispose]() {
        await server[Symbol.asyncDispose]();
        await rm(folder, { recursive: true });
      },
    };
  });

  const etcd = toolOrSkip('etcd', 'the key-value suite does not run against a real etcd');
  if (etcd !== null) {
    kvSuite('a real etcd behind the etcd adapter', async () => {
      const server = await startEtcd(etcd);
      await untilAnswered(server.endpoint);
      return etcdFixture(server.endpoint, async () => server[Symbol.asyncDispose]());
    });
  }
});

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
