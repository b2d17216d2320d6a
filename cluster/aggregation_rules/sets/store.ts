/**
 * Sets of rules in the key-value store, one compressed value each: read, and changed by
 * compare-and-set. Ten thousand rules are some 3 MB of JSON, and compressed a tenth of that.
 */
import { gunzipSync, gzipSync } from 'node:zlib';
import { badRequest, messageOf, TsdbError } from '#lib/errors.ts';
import { type ClusterName, lineageKey, ruleSetsPrefix, storageService } from '../../kv/keys.ts';
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
import { checkDistinctOutputs } from './distinct_outputs.ts';
import { emptyRuleSet, rulesAt, type RuleSet } from './set.ts';
import { ruleSetFromStored, ruleSetToStored } from './json.ts';

const afterAllTime = 2n ** 63n - 1n;

export class RuleSetStore {
  readonly kv: Kv;
  readonly prefix: string;
  readonly #lineageKey: string;

  constructor(kv: Kv, cluster: ClusterName) {
    this.kv = kv;
    this.prefix = ruleSetsPrefix(cluster);
    this.#lineageKey = lineageKey(cluster, storageService);
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
   * @returns the set that stands now
   * @throws {TsdbError} BAD_REQUEST when the name cannot be one, or the set is too large; CONFLICT
   *   when the store awaits approval
   */
  async update(
    name: string,
    change: (current: RuleSet) => RuleSet,
    signal: AbortSignal,
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
        checkDistinctOutputs(rulesAt(next, afterAllTime).rollupRules);
        if (current.modRevision === 0) await this.#refuseOneMore(signal);
        return {
          compares: [unchanged(key, current), unchanged(this.#lineageKey, lineage)],
          operations: [{ kind: 'put', key, value: encoded(next, current) }],
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

  async #refuseOneMore(signal: AbortSignal): Promise<void> {
    const { items } = await this.kv.list(this.prefix, signal);
    if (items.length < ruleSetsMax) return;
    throw badRequest(`there are ${ruleSetsMax} sets of rules already, which is the most`);
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
