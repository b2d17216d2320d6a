/** Follows the level of formats that is finished for a cluster, for as long as a process runs. */
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { formatLevelNewest } from '#lib/format_level.ts';
import type { Log } from '#lib/log.ts';
import { followKey } from '../kv/follow_key.ts';
import { type ClusterName, finishedFormatsKey } from '../kv/keys.ts';
import type { Kv } from '../kv/kv.ts';
import { finishedLevelOf } from './finished_formats.ts';

export interface FollowFinishedFormatsOptions {
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly env: Env;
  readonly log: Log;
  /** Called with each level that is seen, which this release reads; what it throws is tried again. */
  readonly onLevel: (level: number) => void | Promise<void>;
  /** Called when the cluster writes what this release cannot read: the process must end. */
  readonly onFatal: (error: TsdbError) => void;
}

/** Resolves when the signal aborts. A value that cannot be read is reported and changes nothing. */
export function followFinishedFormats(
  options: FollowFinishedFormatsOptions,
  signal: AbortSignal,
): Promise<void> {
  const { kv, cluster, env, log, onLevel, onFatal } = options;
  const key = finishedFormatsKey(cluster);
  const onValue = async (value: Uint8Array | null): Promise<void> => {
    let level: number;
    try {
      level = finishedLevelOf(value);
    } catch (error) {
      log.error({ key, error: messageOf(error) }, 'ignoring a damaged value');
      return;
    }
    if (level <= formatLevelNewest) return onLevel(level);
    onFatal(
      new TsdbError(
        'INTERNAL',
        `the cluster writes formats of level ${level}, and this release reads levels up to ${formatLevelNewest}: run the release of the other nodes`,
      ),
    );
  };
  return followKey({ kv, env, log, key, onValue }, signal);
}
