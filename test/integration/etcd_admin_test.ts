/** Members are added, promoted and removed on a real etcd. */
import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { eventually, Program } from './process.ts';
import { freePorts } from '../ports.ts';
import { toolOrSkip } from '../tools.ts';
import { EtcdClient } from '#operator/etcd/etcd_admin.ts';

/** Small, so that it is soon full. */
const quotaBytes = 4 * 1024 * 1024;

const etcd = toolOrSkip('etcd', 'the operator does not speak to a real etcd');

if (etcd !== null) {
  test('a second member joins as a learner, is promoted, leads, and goes', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tsdb-etcd-'));
    const ports = await freePorts(4);
    const names = ['m-0', 'm-1'];
    const clientUrl = (name: string): string =>
      `http://127.0.0.1:${ports[names.indexOf(name) * 2]}`;
    const peerUrl = (name: string): string =>
      `http://127.0.0.1:${ports[names.indexOf(name) * 2 + 1]}`;
    const start = (name: string, cluster: readonly string[], state: string): Program => {
      const args = [
        ...['--name', name, '--data-dir', join(folder, name)],
        ...['--listen-client-urls', clientUrl(name), '--advertise-client-urls', clientUrl(name)],
        ...['--listen-peer-urls', peerUrl(name), '--initial-advertise-peer-urls', peerUrl(name)],
        ...['--initial-cluster', cluster.map((one) => `${one}=${peerUrl(one)}`).join(',')],
        ...['--initial-cluster-state', state],
      ];
      const program = new Program(name, folder, etcd, args);
      program.start();
      return program;
    };
    const { signal } = new AbortController();
    const admin = new EtcdClient(realEnv, clientUrl);
    const members = async () => {
      const view = await admin.view(names, signal);
      if (!view.reachable) throw new Error(view.problem);
      return view.members;
    };
    const nobody = await admin.view(names, signal);
    assert.equal(nobody.reachable, false);
    const first = start('m-0', ['m-0'], 'new');
    const [one] = await eventually('one member', members);
    assert.deepEqual([one!.name, one!.isLearner, one!.state!.isLeader], ['m-0', false, true]);
    assert.match(one!.state!.version, /^3\./);
    await admin.addLearner(peerUrl('m-1'), signal);
    const added = (await members()).find(({ name }) => name === '')!;
    assert.deepEqual([added.peerUrl, added.isLearner], [peerUrl('m-1'), true]);
    const second = start('m-1', names, 'existing');
    await eventually('promoted', async () => {
      await admin.view(names, signal);
      await admin.promote(added.id, signal);
      return true;
    });
    const both = await members();
    assert.ok(both.every(({ isLearner, state }) => !isLearner && state !== null));
    await admin.moveLeader('m-0', added.id, signal);
    await eventually('the other one leads', async () =>
      (await members()).some(({ name, state }) => name === 'm-1' && state?.isLeader === true),
    );
    await admin.defragment('m-0', signal);
    // Refused while the two know each other for some seconds only.
    await eventually('removed', async () => {
      const left = await members();
      if (left.length === 1) return left[0]!.name === 'm-1';
      await admin.remove(one!.id, signal);
      return false;
    });
    await assert.rejects(admin.remove('123', signal), {
      code: 'BAD_REQUEST',
      message: /not found/,
    });
    await first.stop('SIGKILL');
    await second.stop('SIGKILL');
  });

  test('the alarm of a full etcd is seen with its member, and taken back', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tsdb-etcd-'));
    const [clientPort, peerPort] = await freePorts(2);
    const url = `http://127.0.0.1:${clientPort}`;
    const peerUrl = `http://127.0.0.1:${peerPort}`;
    const member = new Program('m-0', folder, etcd, [
      ...[
        '--name',
        'm-0',
        '--data-dir',
        join(folder, 'm-0'),
        '--quota-backend-bytes',
        `${quotaBytes}`,
      ],
      ...['--listen-client-urls', url, '--advertise-client-urls', url],
      ...['--listen-peer-urls', peerUrl, '--initial-advertise-peer-urls', peerUrl],
      ...['--initial-cluster', `m-0=${peerUrl}`],
    ]);
    member.start();
    const { signal } = new AbortController();
    const admin = new EtcdClient(realEnv, () => url);
    const view = async () => {
      const seen = await admin.view(['m-0'], signal);
      if (!seen.reachable) throw new Error(seen.problem);
      return seen;
    };
    await eventually('answers', async () => (await view()).members.length === 1);
    const value = Buffer.alloc(quotaBytes / 8).toString('base64');
    const put = async (): Promise<number> => {
      const body = JSON.stringify({ key: 'aw==', value });
      const { status } = await fetch(`${url}/v3/kv/put`, { method: 'POST', body });
      return status;
    };
    await eventually('full', async () => (await put()) !== 200);
    const full = await eventually('raised', async () => {
      const seen = await view();
      return seen.alarms.length > 0 && seen;
    });
    const { compactableRevision } = full;
    assert.match(compactableRevision!, /^[1-9]\d*$/);
    await admin.compact(compactableRevision!, signal);
    assert.equal((await view()).compactableRevision, null);
    await admin.defragment('m-0', signal);
    const { dbBytes, dbBytesInUse } = (await view()).members[0]!.state!;
    assert.ok(dbBytes < quotaBytes && dbBytesInUse < quotaBytes / 2, `${dbBytes} ${dbBytesInUse}`);
    assert.deepEqual(full.alarms, [{ memberId: full.members[0]!.id, kind: 'NOSPACE' }]);
    await admin.disarm(full.alarms[0]!, signal);
    assert.deepEqual((await view()).alarms, []);
    assert.equal(await put(), 200);
    await member.stop('SIGKILL');
  });
}
