/** Section `db.repair` of the configuration, as a node takes it. */
export interface RepairOptions {
  readonly enabled: boolean;
  /** `only_compare` counts and logs differences, and changes nothing. */
  readonly type: 'default' | 'only_compare';
  readonly strategy: RepairStrategy;
  /** A block that differs from a peer's for the second time in a row rests for so long, then longer. */
  readonly throttleMillis: number;
  /** Between two rounds. */
  readonly checkIntervalMillis: number;
}

/**
 * Which blocks a round compares: `default` those that are new, were changed or differed, and of
 * each shard one of the others; `full_sweep` all.
 */
export type RepairStrategy = 'default' | 'full_sweep';
