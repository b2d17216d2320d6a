/** The real etcdctl on the embedded store: what an operator types must work. */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { openEmbeddedKv } from '#kv/server.ts';
import { toolOrSkip } from '#test/tools.ts';

const run = promisify(execFile);
const etcdctl = toolOrSkip('etcdctl', 'etcdctl is not tried on the embedded store');

interface Ctl {
  /** Standard output of the command. Rejects with its error output when it fails. */
  (...words: string[]): Promise<string>;
  readonly endpoint: string;
}

async function onStore(task: (ctl: Ctl) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'tsdb-kv-ctl-'));
  try {
    await using kv = await openEmbeddedKv({ folder, port: 0, env: realEnv, log: silentLog });
    const flags = ['--endpoints', kv.endpoint, '--dial-timeout', '5s'];
    const ctl = async (...words: string[]) => {
      const { stdout } = await run(etcdctl!, [...flags, ...words]);
      return stdout.trim();
    };
    await task(Object.assign(ctl, { endpoint: kv.endpoint }));
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Gives the command its input and resolves with its output. */
function feed(endpoint: string, words: readonly string[], input: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const all = ['--endpoints', endpoint, ...words];
    const child = execFile(etcdctl!, all, (error, stdout) => {
      if (error === null) resolve(stdout.trim());
      else reject(error);
    });
    child.stdin!.end(input);
  });
}

if (etcdctl !== null) {
  test('etcdctl put, get, del', () =>
    onStore(async (ctl) => {
      assert.equal(await ctl('put', 'app/a', '1'), 'OK');
      await ctl('put', 'app/b', '2');
      await ctl('put', 'other', '3');
      assert.equal(await ctl('get', 'app/', '--prefix'), 'app/a\n1\napp/b\n2');
      assert.equal(await ctl('get', '', '--prefix', '--keys-only'), 'app/a\n\napp/b\n\nother');
      assert.equal(await ctl('get', 'app/b', '--from-key', '--limit', '1'), 'app/b\n2');
      assert.equal(await ctl('put', 'app/a', '9', '--prev-kv'), 'OK\napp/a\n1');
      assert.equal(await ctl('get', 'app/a', '--rev', '2', '--print-value-only'), '1');
      assert.equal(await ctl('del', 'app/', '--prefix', '--prev-kv'), '2\napp/a\n9\napp/b\n2');
      assert.equal(
        await ctl('get', '', '--prefix', '--count-only', '-w', 'fields').then(countOf),
        '1',
      );
      const sorted = ['get', '', '--prefix', '--sort-by', 'MODIFY', '--order', 'DESCEND'];
      assert.equal(await ctl(...sorted), 'other\n3');
    }));

  test('etcdctl watch sees history from a revision and what comes', () =>
    onStore(async (ctl) => {
      await ctl('put', 'a', '1');
      await ctl('put', 'a', '2');
      const words = ['--endpoints', ctl.endpoint, 'watch', 'a', '--rev', '2', '--prev-kv'];
      const child = spawn(etcdctl, words, { stdio: ['ignore', 'pipe', 'inherit'] });
      const lines: string[] = [];
      for await (const line of createInterface({ input: child.stdout })) {
        lines.push(line);
        if (lines.length === 8) await ctl('del', 'a');
        if (lines.length === 12) break;
      }
      child.kill();
      const [first, second] = ['PUT a 1', 'PUT a 1 a 2'];
      assert.equal(lines.join(' '), `${first} ${second} DELETE a 2 a`);
    }));

  test('etcdctl txn takes the branch that its comparison says', () =>
    onStore(async (ctl) => {
      await ctl('put', 'a', '1');
      const input = 'value("a") = "1"\nmod("a") < "100"\n\nput a 2\nget a\n\nput a 3\n\n';
      assert.equal(await feed(ctl.endpoint, ['txn'], input), 'SUCCESS\n\nOK\n\na\n2');
      assert.equal(await feed(ctl.endpoint, ['txn'], input), 'FAILURE\n\nOK');
      assert.equal(await ctl('get', 'a', '--print-value-only'), '3');
    }));

  test('etcdctl lease grant, timetolive, keep-alive, list, revoke', () =>
    onStore(async (ctl) => {
      const granted = await ctl('lease', 'grant', '100');
      const id = /^lease ([0-9a-f]+) granted with TTL\(100s\)$/.exec(granted)![1]!;
      await ctl('put', 'a', '1', '--lease', id);
      assert.match(
        await ctl('lease', 'timetolive', id, '--keys'),
        new RegExp(
          `^lease ${id} granted with TTL\\(100s\\), remaining\\(\\d+s\\), attached keys\\(\\[a\\]\\)$`,
        ),
      );
      const kept = await ctl('lease', 'keep-alive', id, '--once');
      assert.equal(kept, `lease ${id} keepalived with TTL(100)`);
      assert.equal(await ctl('lease', 'list'), `found 1 leases\n${id}`);
      assert.equal(await ctl('lease', 'revoke', id), `lease ${id} revoked`);
      assert.equal(await ctl('get', 'a'), '');
      assert.match(await ctl('lease', 'timetolive', id), /already expired/);
      await assert.rejects(ctl('lease', 'revoke', id), /requested lease not found/);
    }));

  test('etcdctl compact, and what is refused after it', () =>
    onStore(async (ctl) => {
      for (const value of ['1', '2', '3']) await ctl('put', 'a', value);
      assert.equal(await ctl('compact', '3'), 'compacted revision 3');
      await assert.rejects(
        ctl('get', 'a', '--rev', '2'),
        /etcdserver: mvcc: required revision has been compacted/,
      );
      assert.equal(await ctl('get', 'a', '--rev', '3', '--print-value-only'), '2');
      await assert.rejects(ctl('watch', 'a', '--rev', '2'), /required revision has been compacted/);
      await assert.rejects(ctl('compact', '3'), /required revision has been compacted/);
      assert.match(await ctl('defrag'), /^Finished defragmenting/);
    }));

  test('etcdctl endpoint, member, alarm and auth', () =>
    onStore(async (ctl) => {
      await ctl('put', 'a', '1');
      const [status] = JSON.parse(await ctl('endpoint', 'status', '-w', 'json')) as {
        Status: {
          header: { revision: number; member_id: number };
          version: string;
          leader: number;
        };
      }[];
      assert.equal(status!.Status.header.revision, 2);
      assert.match(status!.Status.version, /^3\.\d+\.\d+$/);
      assert.equal(status!.Status.leader, status!.Status.header.member_id);
      await ctl('endpoint', 'health');
      assert.match(await ctl('endpoint', 'hashkv'), /, \d+/);
      assert.match(
        await ctl('member', 'list'),
        new RegExp(`started, embedded, .*http://${ctl.endpoint}`),
      );
      assert.equal(await ctl('alarm', 'list'), '');
      assert.match(await ctl('auth', 'status'), /Authentication Status: false/);
    }));

  test('etcdctl lock and elect work on leases and watches', () =>
    onStore(async (ctl) => {
      const first = ctl('lock', 'mutex', 'echo', 'one');
      const second = ctl('lock', 'mutex', 'echo', 'two');
      assert.deepEqual(await Promise.all([first, second]), ['one', 'two']);
      assert.equal(await ctl('get', 'mutex', '--prefix'), '');
    }));
}

function countOf(fields: string): string {
  return /"Count" : (\d+)/.exec(fields)![1]!;
}
