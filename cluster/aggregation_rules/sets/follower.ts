/** Follows the sets of rules of a cluster, for as long as a process runs. */
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { UnixNanos } from '#lib/time.ts';
import { ownTurn } from '#lib/turns/turns.ts';
import { followPrefix } from '../../kv/follow_prefix.ts';
import { type ClusterName, ruleSetsPrefix } from '../../kv/keys.ts';
import type { KeyValue, Kv } from '../../kv/kv.ts';
import { type PathCondition, unfulfilled } from '../path_condition.ts';
import { type SetsOfAll, setsOfAll } from './decoded_sets.ts';
import { noRuleSets, RulesOverTime, RuleSetsOverTime } from './over_time.ts';
import type { RuleSet } from './set.ts';
import { allMax, pathProgramsOf } from './size.ts';

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
  readonly set: RuleSet;
  /** Of its patterns of paths those that there is room for. */
  readonly pathProgramsMax: number;
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
  /** What there is no room for, which is told once. */
  #refused = '';

  constructor(options: RulesFollowerOptions) {
    this.#options = options;
  }

  /** Reads and follows the rules from now on. */
  start(): this {
    const { kv, cluster, env, log } = this.#options;
    const prefix = ruleSetsPrefix(cluster);
    const onItems = (items: ReadonlyMap<string, KeyValue>, knownNanos: UnixNanos): Promise<void> =>
      this.#take(prefix, items, knownNanos);
    const options = { kv, env, log, prefix, rereadMillis, onItems };
    this.#running = followPrefix(options, this.#stop.signal);
    return this;
  }

  get known(): KnownRules {
    return this.#known;
  }

  /** While a set is damaged, all rules stay as they were, and nobody takes them for those of now. */
  async #take(
    prefix: string,
    items: ReadonlyMap<string, KeyValue>,
    knownNanos: UnixNanos,
  ): Promise<void> {
    const { signal } = this.#stop;
    const sets = new Map<string, ReadSet>();
    let left: Left;
    try {
      const all = await setsOfAll(items.values(), signal);
      left = { sets: all.refused, rules: [] };
      await this.#read(prefix, all, sets, left.rules);
    } catch (error) {
      signal.throwIfAborted();
      this.#report(prefix, error);
      return;
    }
    this.#damaged = null;
    this.#tell(left);
    const isSame =
      sets.size === this.#sets.size &&
      sets.entries().every(([name, set]) => this.#sets.get(name) === set);
    this.#sets = sets;
    const current = isSame
      ? this.#known.sets
      : new RuleSetsOverTime(new Map([...sets].map(([name, { rules }]) => [name, rules])));
    this.#known = { sets: current, knownNanos };
  }

  /**
   * Patterns of paths are compiled before anybody needs them, with a turn for others after some of them.
   * @param left gets the names of rules that there is no room for
   */
  async #read(
    prefix: string,
    { sets }: SetsOfAll,
    read: Map<string, ReadSet>,
    left: string[],
  ): Promise<void> {
    let pathProgramsLeft = allMax.pathPrograms;
    let sinceRest = 0;
    for (const [key, { set, size }] of sets) {
      const name = key.slice(prefix.length);
      const pathProgramsMax = Math.min(size.pathPrograms, pathProgramsLeft);
      const before = this.#sets.get(name);
      const { set: used, refused } = withinPathPrograms(set, pathProgramsMax);
      for (const rule of refused) left.push(`${name}: ${rule}`);
      const isSame = before?.set === set && before.pathProgramsMax === pathProgramsMax;
      read.set(name, isSame ? before : { set, pathProgramsMax, rules: new RulesOverTime(used) });
      pathProgramsLeft -= pathProgramsMax;
      for (const condition of conditionsOf(used)) {
        if (!prepared(condition, key)) continue;
        sinceRest += condition.programSize;
        if (sinceRest < programsAtOnce) continue;
        sinceRest = 0;
        await ownTurn();
        this.#stop.signal.throwIfAborted();
      }
    }
  }

  /** Of a value that cannot be read. */
  #report(prefix: string, error: unknown): void {
    const what = messageOf(error);
    if (this.#damaged === what) return;
    this.#damaged = what;
    this.#options.log.error(
      { key: prefix, error: what },
      'a set of aggregation rules cannot be read: those that were known before stay',
    );
  }

  #tell({ sets, rules }: Left): void {
    const what = `${sets.join()} ${rules.join()}`;
    if (this.#refused === what) return;
    this.#refused = what;
    if (sets.length > 0) {
      this.#options.log.error(
        { keys: shownSome(sets) },
        'sets of aggregation rules do not hold: all of them together are more than a cluster may have',
      );
    }
    if (rules.length > 0) {
      this.#options.log.error(
        { rules: shownSome(rules) },
        'aggregation rules match no path: patterns of all rules together are more than a cluster may have',
      );
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new TsdbError('CANCELLED', 'the process is stopping'));
    await this.#running;
  }
}

/** What there is no room for. */
interface Left {
  readonly sets: readonly string[];
  readonly rules: string[];
}

/** Of so many names the log has the first ones. */
const shownMax = 10;

function shownSome(names: readonly string[]): string {
  const more = names.length > shownMax ? ` and ${names.length - shownMax} more` : '';
  return names.slice(0, shownMax).join(', ') + more;
}

/** @throws {TsdbError} INTERNAL naming the key */
function prepared(condition: PathCondition, key: string): boolean {
  try {
    return condition.prepare();
  } catch (error) {
    throw new TsdbError('INTERNAL', `value of key ${key} is damaged: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/** Instructions that are compiled in one go, in some milliseconds. */
const programsAtOnce = 2_000;

function conditionsOf({ mappingRules }: RuleSet): PathCondition[] {
  return mappingRules.flatMap(({ versions }) => versions.flatMap(({ rule }) => rule?.path ?? []));
}

/** The set with those patterns of paths that there is room for; rules with others match nothing, and are told by their names. */
function withinPathPrograms(
  set: RuleSet,
  most: number,
): { readonly set: RuleSet; readonly refused: readonly string[] } {
  if (pathProgramsOf(set) <= most) return { set, refused: [] };
  const refused: string[] = [];
  let sum = 0;
  const mappingRules = set.mappingRules.map(({ id, versions }) => ({
    id,
    versions: versions.map((version) => {
      const { rule } = version;
      if (rule === null || rule.path === null) return version;
      sum += rule.path.programSize;
      if (rule.path.programSize === 0 || sum <= most) return version;
      refused.push(rule.name);
      return { ...version, rule: { ...rule, path: unfulfilled(rule.path) } };
    }),
  }));
  return { set: { ...set, mappingRules }, refused };
}
