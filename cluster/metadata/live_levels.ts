/** Levels of consistency of a process: those of the key-value store, over those of its configuration. */
import type { ReadConsistency, WriteConsistency } from '../session/consistency.ts';
import { noRuntimeLimits, type RuntimeLimits } from './runtime_limits.ts';
import {
  RuntimeLimitsFollower,
  type RuntimeLimitsFollowerOptions,
} from './runtime_limits_follower.ts';

export interface ConfiguredLevels {
  readonly writeConsistencyLevel: WriteConsistency;
  readonly readConsistencyLevel: ReadConsistency;
}

/** Follows them until it is closed. A session asks at each read and write. */
export class LiveLevels implements AsyncDisposable {
  readonly #configured: ConfiguredLevels;
  readonly #follower: RuntimeLimitsFollower;
  #live: RuntimeLimits = noRuntimeLimits;

  constructor(
    parts: Omit<RuntimeLimitsFollowerOptions, 'keys' | 'onChange'>,
    configured: ConfiguredLevels,
  ) {
    this.#configured = configured;
    this.#follower = new RuntimeLimitsFollower({
      ...parts,
      keys: ['tsdb.client.write-consistency-level', 'tsdb.client.read-consistency-level'],
      onChange: (limits) => {
        this.#live = limits;
      },
    }).start();
  }

  get writeConsistency(): WriteConsistency {
    return this.#live.writeConsistency ?? this.#configured.writeConsistencyLevel;
  }

  get readConsistency(): ReadConsistency {
    return this.#live.readConsistency ?? this.#configured.readConsistencyLevel;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#follower[Symbol.asyncDispose]();
  }
}
