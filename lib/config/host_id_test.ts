import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resolveHostIdValue } from './host_id.ts';

const world = (files: Record<string, string> = {}, environment: Record<string, string> = {}) => {
  let now = 0;
  return {
    hostname: 'host-7',
    environment,
    files,
    readFileText: async (path: string) => files[path] ?? null,
    monotonicMillis: () => now,
    sleep: async (millis: number) => {
      now += millis;
      if (now >= 400) files['/late'] = 'written-late\n';
    },
  };
};

test('resolveHostIdValue() asks configuration, host name, environment and file', async () => {
  const { signal } = new AbortController();
  const sources = world({ '/id': ' from-file \n' }, { ID: 'from-env' });
  const resolve = (config: Parameters<typeof resolveHostIdValue>[0]) =>
    resolveHostIdValue(config, sources, signal);
  assert.equal(await resolve({ resolver: 'config', value: 'a' }), 'a');
  assert.equal(await resolve({ resolver: 'hostname' }), 'host-7');
  assert.equal(await resolve({ resolver: 'environment', envVarName: 'ID' }), 'from-env');
  assert.equal(await resolve({ resolver: 'file', path: '/id', timeoutMillis: 0 }), 'from-file');
  assert.equal(
    await resolve({ resolver: 'file', path: '/late', timeoutMillis: 1000 }),
    'written-late',
  );
  await assert.rejects(
    resolve({ resolver: 'file', path: '/never', timeoutMillis: 300 }),
    /\/never gives no host ID/,
  );
  await assert.rejects(
    resolve({ resolver: 'environment', envVarName: 'NOPE' }),
    /variable NOPE gives no host ID/,
  );
  await assert.rejects(resolve({ resolver: 'config', value: 'a/b' }), /no usable host ID: a\/b/);
});
