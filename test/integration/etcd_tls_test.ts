/** Members of etcd with the arguments that the operator gives them, and certificates of a Secret. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { connect } from 'node:tls';
import { realEnv } from '#lib/env/real.ts';
import { etcdMembersConfig, etcdObjects } from '#operator/desired/etcd.ts';
import { EtcdClient } from '#operator/etcd/etcd_admin.ts';
import { Names } from '#operator/resource/names.ts';
import { TestAuthority } from '../certificates.ts';
import { freePorts } from '../ports.ts';
import { toolOrSkip } from '../tools.ts';
import { eventually, Program } from './process.ts';

type Json = any;

const etcd = toolOrSkip('etcd', 'TLS of a managed etcd is not tried');
const { signal } = new AbortController();
const folder = mkdtempSync(join(tmpdir(), 'tsdb-etcd-tls-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const cluster: Json = {
  apiVersion: 'tsdb.io/v1alpha1',
  kind: 'TSDBCluster',
  metadata: { name: 'c', namespace: 'default', uid: 'u' },
  spec: {
    replicationFactor: 1,
    numberOfShards: 1,
    nodes: { replicasPerGroup: 1 },
    isolationGroups: [{ name: 'a' }],
    etcd: { replicas: 3, tls: { serverSecret: 'server', clientSecret: 'client' } },
  },
};
const images = {
  operator: 'operator',
  node: 'node',
  coordinator: 'coordinator',
  aggregator: 'aggregator',
  etcd: 'etcd',
};
const names = new Names(cluster);
const pods = ['c-etcd-0', 'c-etcd-1'] as const;

function serialAt(port: number, files: string): Promise<string> {
  const read = (file: string): Buffer => readFileSync(join(files, file));
  return new Promise((resolve, reject) => {
    const tls = { ca: read('ca.crt'), cert: read('tls.crt'), key: read('tls.key') };
    const socket = connect({ host: '127.0.0.1', port, ...tls }, () => {
      resolve(socket.getPeerCertificate().serialNumber);
      socket.destroy();
    });
    socket.on('error', reject);
  });
}

if (etcd !== null) {
  test('members speak TLS to each other and to the operator, with certificates that change', async () => {
    const [server, client] = [join(folder, 'server'), join(folder, 'client')] as const;
    const authority = new TestAuthority(join(folder, 'authority'));
    authority.issue(server);
    authority.issue(client);
    const ports = await freePorts(6);
    const portOf = (pod: string, of: number): number => {
      const index = [2379, 2380, 2381].indexOf(of);
      return ports[3 * pods.indexOf(pod as (typeof pods)[number]) + index]!;
    };
    /** Names of pods are addresses of this machine here. */
    const here = (text: string, own: string): string =>
      text
        .replaceAll('$(POD_NAME)', own)
        .replace(/(c-etcd-\d)\.c-etcd\.default\.svc:(\d+)/g, (_, pod, of) => {
          return `127.0.0.1:${portOf(pod, Number(of))}`;
        })
        .replace(/0\.0\.0\.0:(\d+)/g, (_, of) => `127.0.0.1:${portOf(own, Number(of))}`)
        .replaceAll('/etc/tsdb-etcd-tls', server)
        .replaceAll('/var/lib/etcd', join(folder, own));
    const set = etcdObjects(cluster, images).find(({ kind }) => kind === 'StatefulSet') as Json;
    const [container] = set.spec.template.spec.containers;
    const start = (pod: string, members: readonly string[], state: 'new' | 'existing'): Program => {
      const { data } = etcdMembersConfig(cluster, members, state) as Json;
      const initial = here(data.ETCD_INITIAL_CLUSTER, pod);
      mkdirSync(join(folder, pod), { recursive: true });
      const args = container.args.map((argument: string) => here(argument, pod));
      const variables = { ...data, ETCD_INITIAL_CLUSTER: initial };
      const program = new Program(pod, folder, etcd, args, variables);
      program.start();
      return program;
    };
    const urlOf = (pod: string): string => here(names.etcdClientUrl(pod), pod);
    const read = (file: string): string => readFileSync(join(client, file), 'utf8');
    const certificates = { ca: read('ca.crt'), cert: read('tls.crt'), key: read('tls.key') };
    const admin = new EtcdClient(realEnv, urlOf, certificates);
    const view = async () => {
      const seen = await admin.view(pods, signal);
      if (!seen.reachable) throw new Error(seen.problem);
      return seen.members;
    };
    const first = start(pods[0], [pods[0]], 'new');
    const [one] = await eventually('one member', view);
    assert.equal(one!.peerUrl, here(names.etcdPeerUrl(pods[0]), pods[0]));

    // The kubelet has no certificate; whoever else has none is not let in.
    for (const name of ['startupProbe', 'livenessProbe', 'readinessProbe'] as const) {
      const { path, port, scheme } = container[name].httpGet;
      assert.equal(scheme, 'HTTP');
      const answer = await fetch(`http://127.0.0.1:${portOf(pods[0], port)}${path}`);
      assert.equal(answer.status, 200, name);
    }
    const stranger = await new EtcdClient(realEnv, urlOf).view([pods[0]], signal);
    assert.equal(stranger.reachable, false);

    await admin.addLearner(here(names.etcdPeerUrl(pods[1]), pods[1]), signal);
    const added = (await view()).find(({ name }) => name === '')!;
    const second = start(pods[1], pods, 'existing');
    await eventually('the second one votes', async () => {
      await admin.view(pods, signal);
      await admin.promote(added.id, signal);
      return true;
    });
    assert.ok((await view()).every(({ isLearner, state }) => !isLearner && state !== null));

    const before = await serialAt(portOf(pods[0], 2379), client);
    authority.issue(server);
    assert.notEqual(await serialAt(portOf(pods[0], 2379), client), before);
    assert.equal((await view()).length, 2);
    await first.stop('SIGKILL');
    await second.stop('SIGKILL');
  });
}
