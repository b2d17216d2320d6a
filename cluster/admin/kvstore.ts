/** POST kvstore of the admin API: reads and sets what may be changed while the cluster runs. */
import { badRequest } from '#lib/errors.ts';
import { Fields } from '../fields.ts';
import type { ClusterName } from '../kv/keys.ts';
import type { Kv } from '../kv/kv.ts';
import {
  isRuntimeLimitKey,
  noRuntimeLimits,
  otherKeys,
  runtimeLimitKeys,
  runtimeLimitPath,
  withRuntimeLimit,
} from '../metadata/runtime_limits.ts';
import { compareAndSet, encodeJson } from '../kv/stored_json.ts';

export interface KvstoreAnswer {
  readonly key: string;
  /** JSON; null when the key was not set. */
  readonly old: unknown;
  readonly new: unknown;
  /** Of the key after the change; 0 when nothing was written. */
  readonly version: number;
}

/**
 * `{key, value, commit}`: without `commit` nothing is written. A value of null deletes the key, so
 * that the configuration of the processes holds again. Keys of the reference system begin with `m3db.` in the place of `tsdb.`.
 * @throws {TsdbError} BAD_REQUEST for an unknown key or a bad value
 */
export async function setKvstore(
  target: { readonly kv: Kv; readonly cluster: ClusterName },
  body: unknown,
  options: { readonly dryRun: boolean },
  signal: AbortSignal,
): Promise<KvstoreAnswer> {
  const fields = Fields.of(body, '');
  const key = fields.string('key', '');
  const hasValue = isGiven(body, 'value');
  const value = fields.any('value') ?? null;
  const commit = fields.boolean('commit', false) && !options.dryRun;
  fields.end();
  if (key === '') throw badRequest('missing required field: key');
  const limit = key.replace(/^m3db\./, 'tsdb.');
  if (!isRuntimeLimitKey(limit)) {
    const reason = otherKeys.get(limit) ?? `not one of ${runtimeLimitKeys.join(', ')}`;
    throw badRequest(`key: unsupported kvstore key, ${reason}: ${key}`);
  }
  if (!hasValue) throw badRequest('missing required field: value');
  withRuntimeLimit(noRuntimeLimits, limit, value, 'request');
  const { kv, cluster } = target;
  const path = runtimeLimitPath(cluster, limit);
  return compareAndSet<KvstoreAnswer>(
    kv,
    async () => {
      const item = await kv.get(path, signal);
      const old = item === null ? null : parsed(item.value);
      if (!commit)
        return { compares: [], operations: [], result: { key, old, new: value, version: 0 } };
      const version = value === null ? 0 : (item?.version ?? 0) + 1;
      return {
        compares: [{ key: path, target: 'modRevision', equals: item?.modRevision ?? 0 }],
        operations: [
          value === null
            ? { kind: 'delete', key: path }
            : { kind: 'put', key: path, value: encodeJson(value) },
        ],
        result: { key, old, new: value, version },
      };
    },
    signal,
  );
}

function isGiven(body: unknown, key: string): boolean {
  return typeof body === 'object' && body !== null && Object.hasOwn(body, key);
}

/** What stands there may have been put by hand. */
function parsed(bytes: Uint8Array): unknown {
  const text = new TextDecoder().decode(bytes);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
