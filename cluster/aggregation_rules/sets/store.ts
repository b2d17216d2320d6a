/**
 * Sets of rules in the key-value store, one compressed value each: read, and changed by
 * compare-and-set. Ten thousand rules are some 3 MB of JSON, and compressed a tenth of that.
 */
import { gzipSync } from 'node:zlib';
import { badRequest } from '#lib/errors.ts';
import { inOneGo, withRests } from '#lib/turns/steps.ts';
import { ownTurn } from '#lib/turns/turns.ts';
import {
  type ClusterName,
  lineageKey,
  ruleSetChangesKey,
  ruleSetsPrefix,
  storageService,
} from '../../kv/keys.ts';
import type { Compare, KeyValue, Kv } from '../../kv/kv.ts';
import { refuseUnapproved, storedLineage } from '../../kv/lineage.ts';
import {
  compareAndSet,
  encodeJson,
  nothingStored,
  type Stored,
  unchanged,
} from '../../kv/stored_json.ts';
import { ruleSetBytesMax, ruleSetsMax, storedRuleSetBytesMax } from '../../limits.ts';
import { segmentProblem } from '../../names.ts';
import { withUnreadKeys } from '../../unread_keys.ts';
import type { RollupRule } from '../rules.ts';
import {
  atOnceBytesMax,
  decodedInSteps,
  decodedSet,
  ofEachSet,
  setsOfAll,
} from './decoded_sets.ts';
import { checkDistinctOutputsInSteps } from './distinct_outputs.ts';
import { emptyRuleSet, rulesAt, type RuleSet } from './set.ts';
import { ruleSetToStoredInSteps } from './json.ts';
import { addsRules, checkAllSets, noSize, type SetsSize, sizeOfSet } from './size.ts';

const afterAllTime = 2n ** 63n - 1n;

export class RuleSetStore {
  readonly kv: Kv;
  readonly prefix: string;
  readonly #lineageKey: string;
  readonly #changesKey: string;

  constructor(kv: Kv, cluster: ClusterName) {
    this.kv = kv;
    this.prefix = ruleSetsPrefix(cluster);
    this.#lineageKey = lineageKey(cluster, storageService);
    this.#changesKey = ruleSetChangesKey(cluster);
  }

  /**
   * All sets by their names.
   * @throws {TsdbError} INTERNAL naming the key of one that is damaged
   */
  async list(signal: AbortSignal): Promise<ReadonlyMap<string, RuleSet>> {
    return new Map(await this.each((name, set) => [name, set] as const, signal));
  }

  /**
   * Something of each set, sorted by their names.
   * @throws {TsdbError} as `list`
   */
  async each<T>(of: (name: string, set: RuleSet) => T, signal: AbortSignal): Promise<T[]> {
    const { items } = await this.kv.list(this.prefix, signal);
    return ofEachSet(items, (key, set) => of(this.#nameOf(key), set), signal);
  }

  /** The condition that no set has changed since now, for who writes something else by what they say. */
  async unchangedSince(signal: AbortSignal): Promise<Compare> {
    const changes = await this.kv.get(this.#changesKey, signal);
    return unchanged(this.#changesKey, { modRevision: changes?.modRevision ?? 0 });
  }

  /** An empty one of version 0 when there is none of the name. */
  async get(name: string, signal: AbortSignal): Promise<RuleSet> {
    return (await this.#read(this.#keyOf(name), signal)).value;
  }

  /**
   * Puts the next state of a set in the place of the current one.
   * @param change gets the current one; returning the same writes nothing
   * @param isDryRun all is checked, and nothing is written
   * @returns the set that stands now
   * @throws {TsdbError} BAD_REQUEST when the name cannot be one, the set is too large, or all are together, or its
   *   rollups and those of another set make one series in different ways; CONFLICT when the store awaits approval
   */
  async update(
    name: string,
    change: (current: RuleSet) => RuleSet | Promise<RuleSet>,
    signal: AbortSignal,
    isDryRun = false,
  ): Promise<RuleSet> {
    const key = this.#keyOf(name);
    return compareAndSet(
      this.kv,
      async () => {
        const lineage = storedLineage(await this.kv.get(this.#lineageKey, signal));
        const current = await this.#read(key, signal);
        const next = await change(current.value);
        if (next === current.value) return { compares: [], operations: [], result: next };
        refuseUnapproved(lineage);
        const changes = await this.kv.get(this.#changesKey, signal);
        const { items } = await this.kv.list(this.prefix, signal);
        const others = items.filter((item) => item.key !== key);
        if (others.length === items.length && others.length >= ruleSetsMax) {
          throw badRequest(`there are ${ruleSetsMax} sets of rules already, which is the most`);
        }
        const { sets, size } = await setsOfAll(others, signal);
        const rollups = [...sets].map(
          ([each, { set }]) => [this.#nameOf(each), rollupsOf(set)] as const,
        );
        await withRests(checkDistinctOutputsInSteps(rollupsOf(next), new Map(rollups)), ownTurn);
        const { value, plainBytes } = await withRests(encodedInSteps(next, current), ownTurn);
        if (addsRules(next, current.value)) {
          checkAllSets(name, sizeOfSet(next, plainBytes), current.size, size);
        }
        if (isDryRun) return { compares: [], operations: [], result: next };
        const changesRead = { modRevision: changes?.modRevision ?? 0 };
        return {
          compares: [
            unchanged(key, current),
            unchanged(this.#lineageKey, lineage),
            unchanged(this.#changesKey, changesRead),
          ],
          operations: [
            { kind: 'put', key, value },
            { kind: 'put', key: this.#changesKey, value: encodeJson({ last: name }) },
          ],
          result: next,
        };
      },
      signal,
    );
  }

  async #read(key: string, signal: AbortSignal): Promise<StoredSet> {
    const item = await this.kv.get(key, signal);
    if (item === null) return { ...nothingStored(emptyRuleSet), size: noSize };
    const { set, unread, size } = await decodedSet(item);
    return { value: set, version: item.version, modRevision: item.modRevision, unread, size };
  }

  #nameOf(key: string): string {
    return key.slice(this.prefix.length);
  }

  #keyOf(name: string): string {
    const problem = segmentProblem('name of the set of rules', name);
    if (problem !== null) throw badRequest(problem);
    return this.prefix + name;
  }
}

/** All that are not to end. */
const rollupsOf = (set: RuleSet): readonly RollupRule[] => rulesAt(set, afterAllTime).rollupRules;

interface StoredSet extends Stored<RuleSet> {
  readonly size: SetsSize;
}

interface Encoded {
  readonly value: Uint8Array;
  /** Of it before it was compressed. */
  readonly plainBytes: number;
}

function* encodedInSteps(next: RuleSet, current: Stored<RuleSet>): Generator<void, Encoded> {
  const toStored = yield* ruleSetToStoredInSteps(next);
  // What nobody has put in need not be looked for.
  const json =
    current.unread.length === 0
      ? toStored
      : withUnreadKeys(toStored, yield* ruleSetToStoredInSteps(current.value), current.unread);
  const plain = encodeJson(json);
  if (plain.length > atOnceBytesMax) yield;
  const stored = gzipSync(plain);
  for (const [bytes, bytesMax] of [
    [plain.length, ruleSetBytesMax],
    [stored.length, storedRuleSetBytesMax],
  ] as const) {
    if (bytes <= bytesMax) continue;
    throw badRequest(
      `the rules with their history take ${bytes} bytes${bytesMax === storedRuleSetBytesMax ? ' compressed' : ''}, and ${bytesMax} is the most`,
    );
  }
  return { value: stored, plainBytes: plain.length };
}

/**
 * In one go, for where nobody waits.
 * @throws {TsdbError} INTERNAL naming the key when it is damaged
 */
export function ruleSetOfItem(item: KeyValue): RuleSet {
  return inOneGo(decodedInSteps(item)).set;
}
