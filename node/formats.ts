/**
 * The level of formats that this node writes (lib/format_level.ts). It goes by the cluster's, which
 * `tsdbctl upgrade finish` raises in the key-value store; the data folder remembers it before
 * anything is written by it, so that a start without the key-value store knows it too.
 */
import { followFinishedFormats } from '#cluster/metadata/finished_formats_follower.ts';
import type { ClusterName } from '#cluster/kv/keys.ts';
import type { Kv } from '#cluster/kv/kv.ts';
import type { Env } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import type { FormatLevels } from '#lib/format_level.ts';
import type { Log } from '#lib/log.ts';
import { readFormatLevel, writeFormatLevel } from './persist/format_level_file.ts';

export interface FollowFormatsOptions {
  readonly kv: Kv;
  readonly cluster: ClusterName;
  /** Called when the level is higher than before. */
  readonly onRaise: () => void;
  /** Called when the cluster writes what this release cannot read: the process must end. */
  readonly onFatal: (error: unknown) => void;
}

export class NodeFormats implements FormatLevels, AsyncDisposable {
  readonly #env: Env;
  readonly #log: Log;
  readonly #dataFolder: string;
  #level: number;
  readonly #stop = new AbortController();
  #following: Promise<void> = Promise.resolve();
  #onRaise: () => void = () => {};
  readonly #known = Promise.withResolvers<void>();

  private constructor(env: Env, log: Log, dataFolder: string, level: number) {
    this.#env = env;
    this.#log = log;
    this.#dataFolder = dataFolder;
    this.#level = level;
  }

  /** @throws {TsdbError} INTERNAL when the folder may hold what this release cannot read */
  static async open(env: Env, log: Log, dataFolder: string): Promise<NodeFormats> {
    return new NodeFormats(env, log, dataFolder, await readFormatLevel(env.disk, dataFolder));
  }

  level(): number {
    return this.#level;
  }

  /** Resolves when the level of the cluster was read for the first time. */
  get whenKnown(): Promise<void> {
    return this.#known.promise;
  }

  /** Takes the level of the cluster from now on. */
  follow({ kv, cluster, onRaise, onFatal }: FollowFormatsOptions): void {
    this.#onRaise = onRaise;
    const onLevel = async (level: number): Promise<void> => {
      await this.raise(level);
      this.#known.resolve();
    };
    const options = { kv, cluster, env: this.#env, log: this.#log, onLevel, onFatal };
    this.#following = followFinishedFormats(options, this.#stop.signal);
  }

  /**
   * The level is finished for the cluster, as the key-value store says, or somebody who sends what
   * nobody else would send. A lower one is of a store that was restored from a backup: files of the
   * higher one are here.
   * @throws {TsdbError} UNAVAILABLE when the disk fails: to be called again
   */
  async raise(level: number): Promise<void> {
    if (level <= this.#level) return;
    try {
      await writeFormatLevel(this.#env.disk, this.#dataFolder, level);
    } catch (error) {
      throw new TsdbError('UNAVAILABLE', 'cannot note the level of formats', { cause: error });
    }
    if (level <= this.#level) return;
    this.#level = level;
    this.#log.info({ level }, 'formats of this level are written from now on');
    this.#onRaise();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new TsdbError('CANCELLED', 'the node is stopping'));
    await this.#following;
  }
}
