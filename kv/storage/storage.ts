/** Durability of the store: the side of the storage thread that lives with the server. */
import { Worker } from 'node:worker_threads';
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { kvLimits } from '../core/limits.ts';
import type { Change, StoredState, Write } from '../core/requests.ts';
import type {
  LoadedAnswer,
  OpenedAnswer,
  StorageReply,
  StorageRequest,
  StorageWrite,
  StoredIdentity,
} from './messages.ts';

export interface Storage extends AsyncDisposable {
  /** Opens the file (again) and reads all of it. */
  load(): Promise<{ state: StoredState; identity: StoredIdentity }>;
  /** Resolves when the writes are on disk, all of them; when it rejects none of them count. */
  commit(revision: number, writes: readonly Write[]): Promise<void>;
  size(): Promise<{ fileBytes: number; usedBytes: number }>;
}

interface Waiting {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: Error) => void;
}

/**
 * The file `kv.sqlite` in the folder, which is made when missing. Calls are answered in their
 * order.
 * @throws from `load` {TsdbError} UNAVAILABLE when the file is held by another process or damaged
 */
export async function openStorage(folder: string, env: Env): Promise<Storage> {
  await env.disk.makeFolder(folder);
  const path = `${folder}/kv.sqlite`;
  const waiting = new Map<number, Waiting>();
  let nextId = 0;
  let failure: Error | null = null;
  const spawn = (): Worker => {
    failure = null;
    const url = new URL('worker.ts', import.meta.url);
    const spawned = new Worker(url, { name: 'kv-storage' });
    const fail = (error: unknown) => {
      if (spawned !== worker) return;
      failure = new TsdbError('UNAVAILABLE', `storage thread ended: ${messageOf(error)}`);
      for (const { reject } of waiting.values()) reject(failure);
      waiting.clear();
    };
    spawned.on('error', fail);
    spawned.on('exit', () => fail('exit'));
    spawned.on('message', ({ id, error, answer }: StorageReply) => {
      const waiter = waiting.get(id);
      waiting.delete(id);
      if (error === null) waiter?.resolve(answer);
      else waiter?.reject(new TsdbError('UNAVAILABLE', `${path}: ${error}`));
    });
    return spawned;
  };
  let worker = spawn();
  const ask = <Answer>(request: StorageRequest): Promise<Answer> =>
    new Promise((resolve, reject) => {
      if (failure !== null) {
        reject(failure);
        return;
      }
      nextId += 1;
      waiting.set(nextId, { resolve: resolve as Waiting['resolve'], reject });
      worker.postMessage({ id: nextId, request });
    });
  return {
    async load() {
      if (failure !== null) worker = spawn();
      const newIdentity = { clusterId: drawId(env), memberId: drawId(env) };
      const opened = await ask<OpenedAnswer>({ kind: 'open', path, newIdentity });
      await env.disk.syncFolder(folder);
      const changes: Change[] = [];
      for (;;) {
        const last = changes.at(-1);
        const loaded: LoadedAnswer = await ask({
          kind: 'load',
          afterRevision: last?.modRevision ?? 0,
          afterSub: last?.sub ?? 0,
        });
        for (const change of loaded.changes) changes.push(change);
        if (loaded.ended) break;
      }
      const { identity, revision, compactRevision, leases } = opened;
      return { state: { revision, compactRevision, leases, changes }, identity };
    },
    async commit(revision, writes) {
      let from = 0;
      let past = endOfPart(writes, from);
      for (; past < writes.length; past = endOfPart(writes, from)) {
        // Between two parts others have their turn: what is handed over is copied.
        await ask({ kind: 'hand', writes: writes.slice(from, past).map(storageWriteOf) });
        from = past;
      }
      await ask({ kind: 'commit', revision, writes: writes.slice(from).map(storageWriteOf) });
    },
    size: () => ask({ kind: 'size' }),
    async [Symbol.asyncDispose]() {
      try {
        if (failure === null) await ask({ kind: 'close' });
      } catch {
        // The file was not open; what was acknowledged is on disk either way.
      }
      await worker.terminate();
    },
  };
}

/** A positive 63-bit number, as etcd's ids are. */
export function drawId(env: Env): bigint {
  const high = BigInt(env.random.u32() & 0x7fff_ffff);
  return (high << 32n) | BigInt(env.random.u32()) || 1n;
}

/** Past the last write that is handed over together with the first one. */
function endOfPart(writes: readonly Write[], first: number): number {
  let bytes = 0;
  let rows = 0;
  let past = first;
  while (past < writes.length && rows < kvLimits.handedRowsMax && bytes < kvLimits.handedBytesMax) {
    const write = writes[past]!;
    rows += write.kind === 'drop' ? write.dropped.length : 1;
    if (write.kind === 'change') bytes += write.change.value?.length ?? 0;
    past += 1;
  }
  return past;
}

function storageWriteOf(write: Write): StorageWrite {
  if (write.kind !== 'drop') return write;
  const dropped: number[] = [];
  for (const change of write.dropped) dropped.push(change.modRevision, change.sub);
  return { kind: 'drop', dropped };
}
