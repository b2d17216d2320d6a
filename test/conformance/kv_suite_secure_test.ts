/** The etcd adapter on a real etcd with TLS, and on one with users. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { copyFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { openClusterKv } from '#cluster/kv/connection.ts';
import { openEtcdKv } from '#cluster/kv/etcd.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { silentLog } from '#lib/log.ts';
import { TestAuthority } from '#test/certificates.ts';
import { toolOrSkip } from '#test/tools.ts';
import { startEtcd, untilAnswered } from './kv_suite_servers.ts';

const never = new AbortController().signal;
/** Tries again for half a minute. */
async function untilDone(attempt: () => Promise<unknown>): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      await attempt();
      return;
    } catch (error) {
      if (tries === 150) throw error;
      await realEnv.clock.sleep(200, never);
    }
  }
}

const run = promisify(execFile);
const etcd = toolOrSkip('etcd', 'TLS and users of the etcd adapter are not tried');
const etcdctl = toolOrSkip('etcdctl', 'users of the etcd adapter are not tried');
const operation = { kind: 'put', key: 'k', value: new Uint8Array(1) } as const;
const base = { env: realEnv, log: silentLog };

/**
 * The certificate that a starting etcd writes for itself: its file is there for a moment before its
 * bytes are.
 */
async function certificateOf(path: string): Promise<Uint8Array> {
  for (let attempt = 0; attempt < 1000; attempt += 1) {
    try {
      const pem = await readFile(path);
      new X509Certificate(pem);
      return pem;
    } catch {
      await realEnv.clock.sleep(20, never);
    }
  }
  assert.fail(`etcd wrote no certificate to ${path}`);
}

if (etcd !== null) {
  test('an etcd that speaks TLS is used with its certificate, and not without', async () => {
    await using server = await startEtcd(etcd, ['--auto-tls'], 'https');
    const rootCertificates = await certificateOf(
      join(server.folder, 'fixtures', 'client', 'cert.pem'),
    );
    const endpoint = `https://${server.endpoint}`;
    await untilAnswered(endpoint, { tls: { rootCertificates } });
    await using kv = openEtcdKv({ ...base, endpoints: [endpoint], tls: { rootCertificates } });
    const { revision } = await kv.transact([], [operation], never);
    assert.equal((await kv.get('k', never))!.modRevision, revision);
    for await (const batch of kv.watch('k', revision, never)) {
      assert.equal(batch.events.length, 1);
      break;
    }
    assert.throws(
      () =>
        openEtcdKv({
          ...base,
          endpoints: [endpoint],
          tls: { rootCertificates },
          auth: { username: 'root', password: 'x' },
        }),
      /endpoint must have a name for TLS with users/,
    );
    await using untrusting = openEtcdKv({ ...base, endpoints: [endpoint] });
    await assert.rejects(untrusting.get('k', never), TsdbError);
  });
}

if (etcd !== null) {
  test('certificates that change in their files are used, with no process started anew', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'tsdb-tls-'));
    const [server, client] = [join(folder, 'server'), join(folder, 'client')] as const;
    const old = new TestAuthority(join(folder, 'old'));
    const next = new TestAuthority(join(folder, 'next'));
    const startWith = (authority: TestAuthority, port: number | null) => {
      authority.issue(server);
      const files = ['--cert-file', join(server, 'tls.crt'), '--key-file', join(server, 'tls.key')];
      const trusted = ['--client-cert-auth', '--trusted-ca-file', join(server, 'ca.crt')];
      const more = [...files, ...trusted];
      return startEtcd(etcd, more, 'https', port);
    };
    old.issue(client);
    const first = await startWith(old, null);
    const [caPath, certificatePath, keyPath] = ['ca.crt', 'tls.crt', 'tls.key'].map((file) =>
      join(client, file),
    ) as [string, string, string];
    const warnings: string[] = [];
    const log = { ...silentLog, warn: (_: object, text: string) => void warnings.push(text) };
    await using kv = await openClusterKv(
      {
        type: 'tsdb_cluster',
        env: 'e',
        zone: 'z',
        endpoints: [first.endpoint],
        tls: { caPath, certificatePath, keyPath },
      },
      null,
      realEnv,
      log,
    );
    const deadline = () => realEnv.clock.deadline(30_000, never);
    await untilDone(() => kv.get('k', deadline()));
    const seen: string[] = [];
    const stop = new AbortController();
    const watching = (async () => {
      for await (const { events } of kv.watch('k', 1, stop.signal)) {
        seen.push(...events.map((event) => event.kind));
      }
    })();

    // Half of what is written fits nothing: it is not used.
    next.issue(join(folder, 'half'));
    await copyFile(join(folder, 'half', 'tls.key'), keyPath);
    await untilDone(async () => assert.match(warnings.join(), /cannot be used/));
    next.issue(client);
    const port = Number(first.endpoint.split(':')[1]);
    await first[Symbol.asyncDispose]();
    await using second = await startWith(next, port);
    assert.equal(second.endpoint, first.endpoint);
    await untilDone(() => kv.transact([], [operation], deadline()));
    await untilDone(async () => assert.deepEqual(seen, ['put']));
    stop.abort();
    await watching;

    // Who goes on with the old ones is not let in.
    old.issue(client);
    const tls = { rootCertificates: await readFile(join(server, 'ca.crt')) };
    const certificate = await readFile(certificatePath);
    const privateKey = await readFile(keyPath);
    const endpoints = [`https://${second.endpoint}`];
    await using stale = openEtcdKv({
      ...base,
      endpoints,
      tls: { ...tls, certificate, privateKey },
    });
    await assert.rejects(stale.get('k', deadline()), TsdbError);
    await rm(folder, { recursive: true });
  });
}

if (etcd !== null && etcdctl !== null) {
  test('an etcd with users is used with a name and password, and not without', async () => {
    await using server = await startEtcd(etcd);
    await untilAnswered(server.endpoint);
    const ctl = (...words: string[]) => run(etcdctl, ['--endpoints', server.endpoint, ...words]);
    await ctl('user', 'add', 'root:secret');
    await ctl('user', 'grant-role', 'root', 'root');
    await ctl('auth', 'enable');
    const endpoints = [server.endpoint];
    const auth = { username: 'root', password: 'secret' };
    await using kv = openEtcdKv({ ...base, endpoints, auth });
    const { revision } = await kv.transact([], [operation], never);
    for await (const batch of kv.watch('k', revision, never)) {
      assert.equal(batch.revision, revision);
      break;
    }
    await using lease = await kv.lease(30, never);
    await kv.transact([], [{ ...operation, leaseId: lease.id }], never);
    const isRefused = (error: unknown) =>
      error instanceof TsdbError && error.code === 'BAD_REQUEST';
    await using nobody = openEtcdKv({ ...base, endpoints });
    await assert.rejects(nobody.get('k', never), isRefused);
    const wrong = { username: 'root', password: 'guess' };
    await using stranger = openEtcdKv({ ...base, endpoints, auth: wrong });
    await assert.rejects(stranger.get('k', never), isRefused);
  });
}
