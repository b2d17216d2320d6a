import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';
import { specOf } from '../world_testing.ts';
import { readTlsSecrets } from './tls_secrets.ts';

const { signal } = new AbortController();

test('what is no name of a Secret is not asked for, and said', async () => {
  const cluster: TsdbCluster = {
    apiVersion: 'tsdb.io/v1alpha1',
    kind: 'TSDBCluster',
    metadata: { name: 'c', namespace: 'mine', uid: 'u' },
    spec: specOf({
      etcd: { tls: { clientSecret: '../../theirs/secrets/etcd', serverSecret: 'pods?watch=1' } },
    }),
  };
  const asked: string[] = [];
  const api = {
    get: async (_kind: unknown, _namespace: unknown, name: string) => (asked.push(name), null),
  };
  const { certificates, missing } = await readTlsSecrets(cluster, api, signal);
  assert.deepEqual(asked, []);
  assert.equal(certificates, null);
  assert.deepEqual(missing, [
    'Secret ../../theirs/secrets/etcd (etcd.tls.clientSecret) cannot be: that is no name of an object',
    'Secret pods?watch=1 (etcd.tls.serverSecret) cannot be: that is no name of an object',
  ]);
});
