/** Follows the sets of rules of a cluster, for as long as a process runs. */
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { UnixNanos } from '#lib/time.ts';
import { followPrefix } from '../../kv/follow_prefix.ts';
import { type ClusterName, ruleSetsPrefix } from '../../kv/keys.ts';
import type { KeyValue, Kv } from '../../kv/kv.ts';
import { ruleSetOfItem } from './store.ts';
import { noRuleSets, RulesOverTime, RuleSetsOverTime } from './over_time.ts';

export interface RulesFollowerOptions {
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly env: Env;
  readonly log: Log;
}

/** The rules, and how far they are known. */
export interface KnownRules {
  readonly sets: RuleSetsOverTime;
  /**
   * All rules that were written before this time are among them: those that hold until the notice
   * of a change later. Null when they have never been read.
   */
  readonly knownNanos: UnixNanos | null;
}

/** Nodes go by rules for windows that end half a minute ago at the latest. */
const rereadMillis = 30_000;

interface ReadSet {
  readonly modRevision: number;
  readonly rules: RulesOverTime;
}

export class RulesFollower implements AsyncDisposable {
  readonly #options: RulesFollowerOptions;
  readonly #stop = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #sets: ReadonlyMap<string, ReadSet> = new Map();
  #known: KnownRules = { sets: noRuleSets, knownNanos: null };
  /** A value that cannot be read, which is told once. */
  #damaged: string | null = null;

  constructor(options: RulesFollowerOptions) {
    this.#options = options;
  }

  /** Reads and follows the rules from now on. */
  start(): this {
    const { kv, cluster, env, log } = this.#options;
    const prefix = ruleSetsPrefix(cluster);
    const onItems = (items: ReadonlyMap<string, KeyValue>, knownNanos: UnixNanos): void =>
      this.#take(prefix, items, knownNanos);
    const options = { kv, env, log, prefix, rereadMillis, onItems };
    this.#running = followPrefix(options, this.#stop.signal);
    return this;
  }

  get known(): KnownRules {
    return this.#known;
  }

  /** While a set is damaged, all rules stay as they were, and nobody takes them for those of now. */
  #take(prefix: string, items: ReadonlyMap<string, KeyValue>, knownNanos: UnixNanos): void {
    const sets = new Map<string, ReadSet>();
    for (const [key, item] of items) {
      const name = key.slice(prefix.length);
      const before = this.#sets.get(name);
      try {
        sets.set(name, before?.modRevision === item.modRevision ? before : readSet(item));
      } catch (error) {
        this.#report(`${key} ${item.modRevision}`, key, error);
        return;
      }
    }
    this.#damaged = null;
    const isSame =
      sets.size === this.#sets.size &&
      sets.entries().every(([name, set]) => this.#sets.get(name) === set);
    this.#sets = sets;
    const current = isSame
      ? this.#known.sets
      : new RuleSetsOverTime(new Map([...sets].map(([name, { rules }]) => [name, rules])));
    this.#known = { sets: current, knownNanos };
  }

  #report(what: string, key: string, error: unknown): void {
    if (this.#damaged === what) return;
    this.#damaged = what;
    this.#options.log.error(
      { key, error: messageOf(error) },
      'a set of aggregation rules cannot be read: those that were known before stay',
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new TsdbError('CANCELLED', 'the process is stopping'));
    await this.#running;
  }
}

function readSet(item: KeyValue): ReadSet {
  return { modRevision: item.modRevision, rules: new RulesOverTime(ruleSetOfItem(item)) };
}
