/**
 * Sets of rules in the key-value store, one compressed value each: read, and changed by
 * compare-and-set. Ten thousand rules are some 3 MB of JSON, and compressed a tenth of that.
 */
import { gunzipSync, gzipSync } from 'node:zlib';
import { badRequest, messageOf, TsdbError } from '#lib/errors.ts';
import {
  type ClusterName,
  lineageKey,
  ruleSetChangesKey,
  ruleSetsPrefix,
  storageService,
} from '../../kv/keys.ts';
import type { KeyValue, Kv } from '../../kv/kv.ts';
import { refuseUnapproved, storedLineage } from '../../kv/lineage.ts';
import {
  compareAndSet,
  decodeStored,
  encodeJson,
  nothingStored,
  type Stored,
  unchanged,
} from '../../kv/stored_json.ts';
import { ruleSetBytesMax, ruleSetsMax, storedRuleSetBytesMax } from '../../limits.ts';
import { segmentProblem } from '../../names.ts';
import { withUnreadKeys } from '../../unread_keys.ts';
import type { RollupRule } from '../rules.ts';
import { checkDistinctOutputs } from './distinct_outputs.ts';
import { emptyRuleSet, rulesAt, type RuleSet } from './set.ts';
import { ruleSetFromStored, ruleSetToStored } from './json.ts';

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
    const { items } = await this.kv.list(this.prefix, signal);
    return new Map(items.map((item) => [this.#nameOf(item), ruleSetOfItem(item)]));
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
   * @throws {TsdbError} BAD_REQUEST when the name cannot be one, the set is too large, or its rollups and those of
   *   another set make one series in different ways; CONFLICT when the store awaits approval
   */
  async update(
    name: string,
    change: (current: RuleSet) => RuleSet,
    signal: AbortSignal,
    isDryRun = false,
  ): Promise<RuleSet> {
    const key = this.#keyOf(name);
    return compareAndSet(
      this.kv,
      async () => {
        const lineage = storedLineage(await this.kv.get(this.#lineageKey, signal));
        const current = await this.#read(key, signal);
        const next = change(current.value);
        if (next === current.value) return { compares: [], operations: [], result: next };
        refuseUnapproved(lineage);
        const changes = await this.kv.get(this.#changesKey, signal);
        const others = new Map(await this.list(signal));
        if (!others.delete(name) && others.size >= ruleSetsMax) {
          throw badRequest(`there are ${ruleSetsMax} sets of rules already, which is the most`);
        }
        checkDistinctOutputs(rollupsOf(next), mapValues(others, rollupsOf));
        const value = encoded(next, current);
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

  async #read(key: string, signal: AbortSignal): Promise<Stored<RuleSet>> {
    const item = await this.kv.get(key, signal);
    return item === null ? nothingStored(emptyRuleSet) : storedRuleSet(item);
  }

  #nameOf({ key }: KeyValue): string {
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

const mapValues = <A, B>(map: ReadonlyMap<string, A>, of: (value: A) => B): Map<string, B> =>
  new Map([...map].map(([key, value]) => [key, of(value)]));

function encoded(next: RuleSet, current: Stored<RuleSet>): Uint8Array {
  const json = withUnreadKeys(
    ruleSetToStored(next),
    ruleSetToStored(current.value),
    current.unread,
  );
  const plain = encodeJson(json);
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
  return stored;
}

/** @throws {TsdbError} INTERNAL naming the key when it is damaged */
export function ruleSetOfItem(item: KeyValue): RuleSet {
  return storedRuleSet(item).value;
}

function storedRuleSet(item: KeyValue): Stored<RuleSet> {
  let value;
  try {
    value = gunzipSync(item.value, { maxOutputLength: ruleSetBytesMax });
  } catch (error) {
    throw new TsdbError('INTERNAL', `value of key ${item.key} is damaged: ${messageOf(error)}`, {
      cause: error,
    });
  }
  return decodeStored({ ...item, value }, ruleSetFromStored);
}
