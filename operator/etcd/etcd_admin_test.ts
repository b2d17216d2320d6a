import assert from 'node:assert/strict';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { FakeClock, fakeEnv } from '../fake_clock_testing.ts';
import { memberPod } from '../observe/etcd_members.ts';
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';
import { EtcdClient, type EtcdView, problemsText } from './etcd_admin.ts';

type Json = any;

/** What the only pod says of the members, and which pods were asked for what. */
async function viewOf(members: readonly Json[]): Promise<{ view: EtcdView; asked: string[] }> {
  const answer: RequestListener = (request, response) => {
    const isList = request.url!.endsWith('/member/list');
    response.end(JSON.stringify(isList ? { members } : { version: '3.6.7', leader: '1' }));
  };
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const asked: string[] = [];
  const urlOf = (pod: string): string => {
    asked.push(pod);
    return `http://127.0.0.1:${port}`;
  };
  try {
    const client = new EtcdClient(fakeEnv(new FakeClock()), urlOf);
    const view = await client.view(['c-etcd-0'], new AbortController().signal);
    return { view, asked };
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const member = (ID: string, name: string): Json => ({
  ID,
  name,
  peerURLs: [`http://${name}.c-etcd.default.svc:2380`],
});

test('a member is asked for its state when it is a pod of ours, and by no other name', async () => {
  const names = ['c-etcd-0', 'c-etcd-1', 'victim:2379/v3/maintenance/defragment?', '@victim', ''];
  const { view, asked } = await viewOf(names.map((name, at) => member(String(at + 1), name)));
  assert.deepEqual([...new Set(asked)], ['c-etcd-0']);
  assert.ok(view.reachable);
  const states = view.members.map(({ name, state }) => [name, state?.version]);
  assert.deepEqual(
    states,
    names.map((name) => [name, name === 'c-etcd-0' ? '3.6.7' : undefined]),
    'all of them are told',
  );
});

test('an etcd with more members than any of ours has is not looked at', async () => {
  const many = Array.from({ length: 17 }, (_, at) => member(String(at), 'c-etcd-0'));
  const { view, asked } = await viewOf(many);
  assert.deepEqual(asked, ['c-etcd-0']);
  const problem = 'etcd has 17 members, and at most 16 are looked at';
  assert.deepEqual(view, { reachable: false, problem });
});

test('why nobody answers is told once for all who say the same, without addresses', () => {
  const list = (pod: string): string =>
    `http://${pod}.c-etcd.default.svc:2379/v3/cluster/member/list`;
  const failing = (pod: string, why: string) => ({ pod, problem: `POST ${list(pod)}: ${why}` });
  const text = problemsText([
    failing('c-etcd-0', 'getaddrinfo ENOTFOUND c-etcd-0.c-etcd.default.svc'),
    failing('c-etcd-1', 'connect ECONNREFUSED 10.0.0.7:2379'),
    failing('c-etcd-2', 'getaddrinfo ENOTFOUND c-etcd-2.c-etcd.default.svc'),
    { pod: 'c-etcd-3', problem: 'etcd c-etcd-3 /v3/cluster/member/list: 503 no leader' },
  ]);
  assert.equal(
    text,
    'c-etcd-0, c-etcd-2: no address yet; c-etcd-1: connection refused; c-etcd-3: etcd c-etcd-3 /v3/cluster/member/list: 503 no leader',
  );
  assert.equal(problemsText([]), 'there is no pod');
});

test('a member whose ordinal no pod of ours can have is none of ours', () => {
  const cluster = { metadata: { name: 'c', namespace: 'default' }, spec: {} } as TsdbCluster;
  const podOf = (name: string): string | null => {
    const peerUrl = `http://${name}.c-etcd.default.svc:2380`;
    const told = { id: '1', peerUrl, isLearner: false, state: null };
    const [started, joining] = [
      memberPod(cluster, { ...told, name }),
      memberPod(cluster, { ...told, name: '' }),
    ];
    assert.equal(started, joining);
    return started;
  };
  assert.equal(podOf('c-etcd-4'), 'c-etcd-4');
  // The set of etcd would get as many pods.
  for (const name of ['c-etcd-5', 'c-etcd-999999', 'c-etcd', 'd-etcd-0'])
    assert.equal(podOf(name), null);
});
