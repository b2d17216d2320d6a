/** Stores in processes of their own, for the key-value tests. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { EtcdKvOptions } from '#cluster/kv/etcd.ts';
import { openEtcdKv } from '#cluster/kv/etcd.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { freePorts } from '../ports.ts';

export interface StoreProcess extends AsyncDisposable {
  /** 'host:port' */
  readonly endpoint: string;
  /** SIGKILL, and waits for the end. */
  kill(): Promise<void>;
}

/** The embedded store on the folder. @param port 0 takes a free one */
export async function startEmbedded(folder: string, port = 0): Promise<StoreProcess> {
  const script = join(import.meta.dirname, 'kv_suite_host.ts');
  const child = spawn(process.execPath, [script, folder, String(port)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout });
  const [line] = (await Promise.race([
    once(lines, 'line'),
    once(child, 'exit').then(() => assert.fail('the host of the store ended')),
  ])) as [string];
  return processOf(child, `127.0.0.1:${line}`);
}

/**
 * A real etcd of one member with a folder of its own.
 * @param more further arguments
 * @param port of its clients; null for a free one
 */
export async function startEtcd(
  binary: string,
  more: readonly string[] = [],
  scheme: 'http' | 'https' = 'http',
  port: number | null = null,
): Promise<StoreProcess & { readonly folder: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'tsdb-etcd-'));
  const [clientPort, peerPort] = [port ?? (await freePort()), await freePort()];
  const clientUrl = `${scheme}://127.0.0.1:${clientPort}`;
  const peerUrl = `http://127.0.0.1:${peerPort}`;
  const options = [
    ['--data-dir', folder],
    ['--listen-client-urls', clientUrl],
    ['--advertise-client-urls', clientUrl],
    ['--listen-peer-urls', peerUrl],
    ['--initial-advertise-peer-urls', peerUrl],
    ['--initial-cluster', `default=${peerUrl}`],
    ['--unsafe-no-fsync'],
    more,
  ];
  const child = spawn(binary, options.flat(), { stdio: 'ignore' });
  const started = processOf(child, `127.0.0.1:${clientPort}`);
  return {
    ...started,
    folder,
    async [Symbol.asyncDispose]() {
      await started.kill();
      await rm(folder, { recursive: true });
    },
  };
}

function processOf(child: ChildProcess, endpoint: string): StoreProcess {
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, 'exit');
    child.kill('SIGKILL');
    await exit;
  };
  return { endpoint, kill, [Symbol.asyncDispose]: kill };
}

/** Resolves when the store answers. */
export async function untilAnswered(
  endpoint: string,
  options: Partial<EtcdKvOptions> = {},
): Promise<void> {
  const signal = new AbortController().signal;
  await using kv = openEtcdKv({
    endpoints: [endpoint],
    env: realEnv,
    log: silentLog,
    ...options,
  });
  for (let attempt = 0; attempt < 400; attempt += 1) {
    try {
      await kv.get('ready', signal);
      return;
    } catch {
      await realEnv.clock.sleep(50, signal);
    }
  }
  assert.fail(`the store at ${endpoint} does not answer`);
}

export async function freePort(): Promise<number> {
  const [port] = await freePorts(1);
  return port!;
}
