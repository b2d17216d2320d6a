/**
 * Everything through which the process meets the world: clock, randomness and disk as interfaces,
 * so that the deterministic simulator can run the production code. The real ones are in real.ts,
 * servers and sockets in http.ts and grpc.ts. Outside this folder and main.ts files nothing else
 * touches them.
 */
import type { UnixNanos } from '../time.ts';

export interface Env {
  readonly clock: Clock;
  readonly random: Random;
  readonly disk: Disk;
}

export interface Clock {
  /** Unix milliseconds, whole. */
  nowMillis(): number;
  nowNanos(): UnixNanos;
  /** Never runs backwards; for durations. Fractional milliseconds. */
  monotonicMillis(): number;
  /** Resolves after the time, rejects with the signal's reason when aborted. */
  sleep(millis: number, signal: AbortSignal): Promise<void>;
  /** Runs `task` every `millis` (next one only after the last ended) until the signal aborts.
   *  Errors of the task go to `onError`. */
  every(
    millis: number,
    task: () => void | Promise<void>,
    onError: (error: unknown) => void,
    signal: AbortSignal,
  ): void;
  /**
   * A signal that aborts with a DEADLINE_EXCEEDED `TsdbError` after the time, or as its parent
   * does.
   */
  deadline(millis: number, parent: AbortSignal): AbortSignal;
}

export interface Random {
  /** Whole number in [0, 2^32). */
  u32(): number;
  bytes(length: number): Uint8Array;
  /** Number in [0, 1), for jitter. */
  fraction(): number;
}

export type DiskOpenMode = 'read' | 'create' | 'createSynced' | 'append' | 'write';

/**
 * Paths are plain strings; every method rejects with the system's error (`code` 'ENOENT', 'ENOSPC',
 * …).
 */
export interface Disk {
  /**
   * 'create' fails when the file exists; 'append' opens or creates; 'read' must exist.
   * 'createSynced' is 'create' for a file of which every write is followed by a sync: a write may
   * do the sync's work then, in one call to the system.
   */
  open(path: string, mode: DiskOpenMode): Promise<DiskFile>;
  readFile(path: string): Promise<Uint8Array>;
  /** Writes a whole file, syncs it, renames it into place and syncs the folder: all or nothing. */
  writeFileAtomic(path: string, bytes: Uint8Array): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** No error when it is not there. */
  remove(path: string): Promise<void>;
  removeTree(path: string): Promise<void>;
  makeFolder(path: string): Promise<void>;
  /** Names in the folder, sorted; empty when the folder is not there. */
  list(path: string): Promise<string[]>;
  /** Bytes of the file, or null when it is not there. */
  size(path: string): Promise<number | null>;
  /** Makes creations, renames and removals in the folder durable. */
  syncFolder(path: string): Promise<void>;
}

export interface DiskFile extends AsyncDisposable {
  /** Bytes at the position; fewer than asked only at the end of the file. */
  read(position: number, length: number): Promise<Uint8Array>;
  /** Writes all of the parts one after the other at the position. */
  write(position: number, parts: readonly Uint8Array[]): Promise<void>;
  /** fdatasync. After a failure the file must not be trusted again. */
  sync(): Promise<void>;
  truncate(length: number): Promise<void>;
  size(): Promise<number>;
  close(): Promise<void>;
}
