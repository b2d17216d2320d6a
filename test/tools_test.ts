import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, test } from 'node:test';
import { toolOrSkip } from './tools.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-tools-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** A program that prints a text, in a folder of its own. */
function fake(name: string, text: string): string {
  const own = join(folder, `${name}-${text.replace(/\W+/g, '_')}`);
  mkdirSync(own, { recursive: true });
  writeFileSync(join(own, name), `#!/bin/sh\necho '${text}'\n`);
  chmodSync(join(own, name), 0o755);
  return own;
}

const oldEtcd = fake('etcd', 'etcd Version: 3.4.23');
const oldPrometheus = fake('prometheus', 'prometheus, version 2.42.0+ds (branch: debian/sid)');
const newPrometheus = fake('prometheus', 'prometheus, version 3.15.0 (branch: HEAD)');
const namelessPrometheus = fake('prometheus', 'prometheus, version  (branch: , revision: unknown)');

function only(...folders: string[]): void {
  process.env['TSDB_TEST_TOOLS'] = folders.join(delimiter);
  process.env['PATH'] = '';
  process.env['HOME'] = folder;
  delete process.env['TSDB_TEST_REQUIRE_ALL'];
}

test('toolOrSkip() takes a program of an old version for none and says which one is needed', (t) => {
  const { mock } = t.mock.method(console, 'log', () => {});
  only(oldEtcd, oldPrometheus);
  assert.equal(toolOrSkip('etcd', 'nothing is tried'), null);
  assert.equal(toolOrSkip('prometheus', 'nothing is tried'), null);
  assert.deepEqual(
    mock.calls.map((call) => String(call.arguments[0]).replaceAll(folder, '')),
    [
      'skipped: etcd 3.6 or newer was not found (/etcd-etcd_Version_3_4_23/etcd is 3.4.23), so nothing is tried: put it on the PATH or name its folder in TSDB_TEST_TOOLS',
      'skipped: prometheus 3.0 or newer was not found (/prometheus-prometheus_version_2_42_0_ds_branch_debian_sid_/prometheus is 2.42.0+ds), so nothing is tried: put it on the PATH or name its folder in TSDB_TEST_TOOLS',
    ],
  );
});

test('toolOrSkip() fails for an old version when nothing may be left out', () => {
  only(oldEtcd);
  process.env['TSDB_TEST_REQUIRE_ALL'] = '1';
  assert.throws(() => toolOrSkip('etcd', 'nothing is tried'), /etcd 3\.6 or newer.*is 3\.4\.23/);
});

test('toolOrSkip() passes over an old version for a new one, and takes one that does not know its own', () => {
  only(oldPrometheus, newPrometheus);
  assert.equal(toolOrSkip('prometheus', ''), join(newPrometheus, 'prometheus'));
  only(oldPrometheus, namelessPrometheus);
  assert.equal(toolOrSkip('prometheus', ''), join(namelessPrometheus, 'prometheus'));
});
