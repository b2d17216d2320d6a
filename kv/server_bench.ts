/** What a write of the embedded store costs, through gRPC to the disk and back. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { connectGrpc } from '#lib/env/grpc.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { schema } from './messages.ts';
import { openEmbeddedKv } from './server.ts';

export async function bench(size: BenchSize): Promise<BenchResult[]> {
  const writeCount = size === 'small' ? 50 : 5_000;
  const folder = await mkdtemp(join(tmpdir(), 'tsdb-kv-bench-'));
  try {
    await using kv = await openEmbeddedKv({ folder, port: 0, env: realEnv, log: silentLog });
    using client = connectGrpc({ target: kv.endpoint, answerBytesMax: 1_000_000 });
    const { signal } = new AbortController();
    const put = schema.codec('etcdserverpb.PutRequest');
    const value = new Uint8Array(500);
    const results: BenchResult[] = [];
    for (const writers of [1, 64]) {
      const startMillis = realEnv.clock.monotonicMillis();
      let left = writeCount;
      const write = async (name: number) => {
        while (left > 0) {
          left -= 1;
          const request = put.encode({ key: Buffer.from(`k/${name}/${left}`), value });
          await client.unary('/etcdserverpb.KV/Put', request, signal);
        }
      };
      await Promise.all(Array.from({ length: writers }, (_, name) => write(name)));
      const seconds = (realEnv.clock.monotonicMillis() - startMillis) / 1000;
      const name = `kv: durable puts of 500 bytes, ${writers} at once`;
      results.push({ name, unit: 'puts/s', value: writeCount / seconds });
    }
    return results;
  } finally {
    await rm(folder, { recursive: true });
  }
}
