import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clusterPrefix } from './keys.ts';

test('an environment may be several names, as M3 on Kubernetes has it, and a zone is one', () => {
  const of = (environment: string, zone = 'embedded') => clusterPrefix({ environment, zone });
  assert.equal(of('default_env'), '_kv/default_env/embedded/');
  assert.equal(of('metrics/m3-cluster'), '_kv/metrics%2Fm3-cluster/embedded/');
  for (const environment of ['', '/', 'a/', '/a', 'a//b', '../a', 'a/..', 'a b', 'a/-b']) {
    assert.throws(() => of(environment), /environment/, environment);
  }
  assert.throws(() => of('a', 'b/c'), /zone does not match .*: "b\/c"/);
});
