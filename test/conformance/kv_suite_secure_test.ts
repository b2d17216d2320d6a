/** The etcd adapter on a real etcd with TLS, and on one with users. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { openEtcdKv } from '#cluster/kv/etcd.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { silentLog } from '#lib/log.ts';
import { toolOrSkip } from '#test/tools.ts';
import { startEtcd, untilAnswered } from './kv_suite_servers.ts';

const never = new AbortController().signal;
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
    const rootCertificate = await certificateOf(
      join(server.folder, 'fixtures', 'client', 'cert.pem'),
    );
    const endpoint = `https://${server.endpoint}`;
    await untilAnswered(endpoint, { tls: { rootCertificate } });
    await using kv = openEtcdKv({ ...base, endpoints: [endpoint], tls: { rootCertificate } });
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
          tls: { rootCertificate },
          auth: { username: 'root', password: 'x' },
        }),
      /endpoint must have a name for TLS with users/,
    );
    await using untrusting = openEtcdKv({ ...base, endpoints: [endpoint] });
    await assert.rejects(untrusting.get('k', never), TsdbError);
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
