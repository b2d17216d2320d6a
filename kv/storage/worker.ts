/**
 * The storage thread: one SQLite file, written in whole transactions. See docs/formats/kv.md. It
 * runs in a thread of its own since SQLite waits for the disk in the call.
 */
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { parentPort } from 'node:worker_threads';
import { assert } from '#lib/assert.ts';
import { messageOf } from '#lib/errors.ts';
import { kvLimits } from '../core/limits.ts';
import type { Change } from '../core/requests.ts';
import type {
  LoadedAnswer,
  OpenedAnswer,
  StorageEnvelope,
  StorageReply,
  StorageRequest,
  StorageWrite,
  StoredIdentity,
} from './messages.ts';

const formatVersion = 1n;

const schema = `
  CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE changes (
    revision INTEGER NOT NULL,
    sub INTEGER NOT NULL,
    key BLOB NOT NULL,
    value BLOB,
    create_revision INTEGER NOT NULL,
    version INTEGER NOT NULL,
    lease INTEGER NOT NULL,
    PRIMARY KEY (revision, sub)
  );
  CREATE TABLE leases (id INTEGER PRIMARY KEY, ttl_seconds INTEGER NOT NULL) WITHOUT ROWID;
`;

interface ChangeRow {
  readonly revision: bigint;
  readonly sub: bigint;
  readonly key: Uint8Array;
  readonly value: Uint8Array | null;
  readonly create_revision: bigint;
  readonly version: bigint;
  readonly lease: bigint;
}

class StorageFile {
  readonly #database: DatabaseSync;
  readonly #insertChange: StatementSync;
  readonly #deleteChange: StatementSync;
  readonly #insertLease: StatementSync;
  readonly #deleteLease: StatementSync;
  readonly #setMeta: StatementSync;
  readonly #page: StatementSync;
  /** Of the next commit. */
  #handed: StorageWrite[] = [];

  /** @throws when the file is held by another process, damaged, or of another format */
  constructor(path: string, newIdentity: StoredIdentity) {
    this.#database = new DatabaseSync(path);
    try {
      // One process owns the file: a second one would answer from a memory of its own.
      this.#database.exec('PRAGMA locking_mode = EXCLUSIVE');
      this.#database.exec('PRAGMA journal_mode = WAL');
      this.#database.exec('PRAGMA synchronous = FULL');
      this.#prepareFormat(path, newIdentity);
    } catch (error) {
      this.#database.close();
      throw error;
    }
    this.#insertChange = this.#database.prepare('INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?)');
    this.#deleteChange = this.#database.prepare(
      'DELETE FROM changes WHERE revision = ? AND sub = ?',
    );
    this.#insertLease = this.#database.prepare('INSERT INTO leases VALUES (?, ?)');
    this.#deleteLease = this.#database.prepare('DELETE FROM leases WHERE id = ?');
    this.#setMeta = this.#database.prepare('UPDATE meta SET value = ? WHERE name = ?');
    this.#page = this.#database.prepare(
      'SELECT * FROM changes WHERE (revision, sub) > (?, ?) ORDER BY revision, sub LIMIT ?',
    );
    this.#page.setReadBigInts(true);
  }

  #prepareFormat(path: string, newIdentity: StoredIdentity): void {
    const found = this.#database
      .prepare("SELECT name FROM sqlite_master WHERE name = 'meta'")
      .get();
    if (found === undefined) {
      this.#database.exec('BEGIN IMMEDIATE');
      this.#database.exec(schema);
      const insert = this.#database.prepare('INSERT INTO meta VALUES (?, ?)');
      insert.run('format_version', formatVersion);
      insert.run('cluster_id', newIdentity.clusterId);
      insert.run('member_id', newIdentity.memberId);
      insert.run('revision', 1n);
      insert.run('compact_revision', 0n);
      this.#database.exec('COMMIT');
    }
    const check = this.#database.prepare('PRAGMA quick_check(1)').get();
    const verdict = String(Object.values(check ?? {})[0]);
    if (verdict !== 'ok') throw new Error(`${path} is damaged: ${verdict}`);
    const version = this.#meta('format_version');
    if (version !== formatVersion) {
      throw new Error(`${path} has format ${version}, and this program reads ${formatVersion}`);
    }
  }

  opened(): OpenedAnswer {
    const leases = this.#database.prepare('SELECT id, ttl_seconds FROM leases ORDER BY id');
    leases.setReadBigInts(true);
    const rows = leases.all() as unknown as { id: bigint; ttl_seconds: bigint }[];
    return {
      identity: { clusterId: this.#meta('cluster_id'), memberId: this.#meta('member_id') },
      revision: Number(this.#meta('revision')),
      compactRevision: Number(this.#meta('compact_revision')),
      leases: rows.map((row) => ({ id: row.id, ttlSeconds: Number(row.ttl_seconds) })),
    };
  }

  load(afterRevision: number, afterSub: number): LoadedAnswer {
    const changes: Change[] = [];
    let bytes = 0;
    const rows = this.#page.iterate(afterRevision, afterSub, kvLimits.handedRowsMax);
    for (const found of rows) {
      const row = found as unknown as ChangeRow;
      changes.push({
        key: Buffer.from(row.key).toString('latin1'),
        value: row.value,
        modRevision: Number(row.revision),
        sub: Number(row.sub),
        createRevision: Number(row.create_revision),
        version: Number(row.version),
        leaseId: row.lease,
      });
      bytes += row.key.length + (row.value?.length ?? 0);
      if (bytes >= kvLimits.handedBytesMax) return { changes, ended: false };
    }
    return { changes, ended: changes.length < kvLimits.handedRowsMax };
  }

  /** Writes that the next commit begins with. */
  hand(writes: readonly StorageWrite[]): void {
    for (const write of writes) this.#handed.push(write);
  }

  /** All of it and what was handed over since the last one or, when this throws, nothing. */
  commit(revision: number, writes: readonly StorageWrite[]): void {
    const handed = this.#handed;
    this.#handed = [];
    this.#database.exec('BEGIN IMMEDIATE');
    try {
      for (const write of handed) this.#write(write);
      for (const write of writes) this.#write(write);
      this.#setMeta.run(revision, 'revision');
      this.#database.exec('COMMIT');
    } catch (error) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      throw error;
    }
  }

  #write(write: StorageWrite): void {
    switch (write.kind) {
      case 'change': {
        const { change } = write;
        this.#insertChange.run(
          change.modRevision,
          change.sub,
          Buffer.from(change.key, 'latin1'),
          change.value,
          change.createRevision,
          change.version,
          change.leaseId,
        );
        break;
      }
      case 'compact':
        this.#setMeta.run(write.revision, 'compact_revision');
        break;
      case 'drop': {
        for (let index = 0; index < write.dropped.length; index += 2) {
          const { changes } = this.#deleteChange.run(
            write.dropped[index]!,
            write.dropped[index + 1]!,
          );
          assert(changes === 1, 'a change that is dropped is on disk');
        }
        break;
      }
      case 'lease':
        this.#insertLease.run(write.id, write.ttlSeconds);
        break;
      case 'leaseGone':
        this.#deleteLease.run(write.id);
        break;
      default:
        write satisfies never;
    }
  }

  /** Bytes of the file, and of those in use. */
  size(): { fileBytes: number; usedBytes: number } {
    const pragma = (name: string) =>
      Number(Object.values(this.#database.prepare(`PRAGMA ${name}`).get() ?? {})[0]);
    const pageBytes = pragma('page_size');
    const pages = pragma('page_count');
    return {
      fileBytes: pages * pageBytes,
      usedBytes: (pages - pragma('freelist_count')) * pageBytes,
    };
  }

  close(): void {
    this.#database.close();
  }

  #meta(name: string): bigint {
    const statement = this.#database.prepare('SELECT value FROM meta WHERE name = ?');
    statement.setReadBigInts(true);
    const row = statement.get(name) as { value: bigint } | undefined;
    if (row === undefined) throw new Error(`meta row ${name} is missing`);
    return row.value;
  }
}

let file: StorageFile | null = null;

function perform(request: StorageRequest): unknown {
  if (request.kind === 'open') {
    file?.close();
    file = null;
    file = new StorageFile(request.path, request.newIdentity);
    return file.opened();
  }
  assert(file !== null, 'the storage file is open');
  switch (request.kind) {
    case 'load':
      return file.load(request.afterRevision, request.afterSub);
    case 'hand':
      file.hand(request.writes);
      return null;
    case 'commit':
      file.commit(request.revision, request.writes);
      return null;
    case 'size':
      return file.size();
    case 'close':
      file.close();
      file = null;
      return null;
    default:
      return request satisfies never;
  }
}

assert(parentPort !== null, 'the storage thread has a parent');
const port = parentPort;
port.on('message', ({ id, request }: StorageEnvelope) => {
  let reply: StorageReply;
  try {
    reply = { id, error: null, answer: perform(request) };
  } catch (error) {
    reply = { id, error: messageOf(error), answer: null };
  }
  port.postMessage(reply);
});
