import assert from 'node:assert/strict';
import { test } from 'node:test';
import { etcdSkew, etcdVersionOf } from './version_skew.ts';

test('versions are read of tags and of what etcd says', () => {
  for (const text of ['3.6.7', 'v3.6.7', 'quay.io/coreos/etcd:v3.6.7', 'host:5000/etcd:3.6.7-0']) {
    assert.deepEqual(etcdVersionOf(text), { major: 3, minor: 6, patch: 7 }, text);
  }
  for (const text of ['', 'etcd', 'etcd:test', 'etcd@sha256:0123', 'host:5000/etcd']) {
    assert.equal(etcdVersionOf(text), null, text);
  }
});

test('a version is followed by itself or the next minor one', () => {
  assert.equal(etcdSkew('etcd:v3.6.9', ['3.6.7', '3.6.9']), null);
  assert.equal(etcdSkew('etcd:v3.6.0', ['3.5.26']), null);
  assert.equal(etcdSkew('etcd:test', ['3.5.21']), null, 'nobody can tell');
  assert.match(etcdSkew('etcd:v3.6.0', ['3.4.1', '3.5.21']) ?? '', /3\.4\.1.*3\.4 or 3\.5/);
  assert.match(etcdSkew('etcd:v3.5.9', ['3.6.7']) ?? '', /not by etcd:v3\.5\.9/, 'not back');
  const zombies = /^etcd 3\.5\.25 is followed by 3\.5\.26 or a later 3\.5/;
  assert.match(etcdSkew('etcd:v3.6.0', ['3.5.26', '3.5.25']) ?? '', zombies);
  assert.equal(etcdSkew('etcd:v3.5.26', ['3.5.9']), null);
  assert.match(etcdSkew('etcd:v4.0.0', ['3.6.7']) ?? '', /3\.6 or 3\.7/);
});
