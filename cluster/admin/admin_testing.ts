/** An admin of an empty store, for tests of what requests to it come to. */
import assert from 'node:assert/strict';
import { realEnv } from '#lib/env/real.ts';
import type { TsdbError } from '#lib/errors.ts';
import type { ClusterName } from '../kv/keys.ts';
import type { Kv } from '../kv/kv.ts';
import { MemoryKvStore } from '../kv/memory.ts';
import { ClusterAdmin } from './admin.ts';

export const signal: AbortSignal = new AbortController().signal;
export const cluster: ClusterName = { environment: 'default_env', zone: 'embedded' };

export function newAdmin(): { readonly kv: Kv; readonly admin: ClusterAdmin } {
  const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
  return {
    kv,
    admin: new ClusterAdmin({ kv, cluster, clock: realEnv.clock, random: realEnv.random }),
  };
}

export const instance = (id: string, isolation_group: string, more: object = {}): object => ({
  id,
  isolation_group,
  zone: 'embedded',
  weight: 1,
  endpoint: `${id}:9000`,
  hostname: id,
  port: 9000,
  ...more,
});

export const refused =
  (code: string, text: RegExp): ((thrown: unknown) => true) =>
  (thrown: unknown): true => {
    const error = thrown as TsdbError;
    assert.equal(error.code, code, error.stack ?? '');
    assert.match(error.message, text);
    return true;
  };
