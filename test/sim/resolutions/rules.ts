/** Rules of a run: others each time, of series by the last digit of their number; and what stored ones say. */
import { isWindowType, type WindowType } from '#cluster/aggregation_rules/aggregation_types.ts';
import { isSamePolicy } from '#cluster/aggregation_rules/rules.ts';
import {
  noRuleSets,
  RulesOverTime,
  RuleSetsOverTime,
} from '#cluster/aggregation_rules/sets/over_time.ts';
import { ruleSetOfItem } from '#cluster/aggregation_rules/sets/store.ts';
import { KeptWindows } from '#cluster/aggregation_rules/sets/kept_windows.ts';
import { ruleSetsPrefix } from '#cluster/kv/keys.ts';
import type { KeyValue } from '#cluster/kv/kv.ts';
import { encodeTags, type Tags } from '#lib/tags.ts';
import type { SeededRandom } from '#test/seeded_random.ts';
import { clusterName, type World } from '../cluster/world.ts';
import type { WindowsShape } from '../cluster/windows/shape.ts';
import { policyOf, policyTextOf, resolutions } from './shape.ts';

export const ruleSet = 'default';
const digits = Array.from({ length: 10 }, (_, digit) => digit);
const nanosPerMilli = 1_000_000n;
/** As what a rule has windows read. */
const readAs = [[], ['Last'], ['Min'], ['Max'], ['Mean'], ['Sum'], ['Count'], ['P99', 'Max']];

/** A file of rules, as `tsdbctl aggregation-rules apply` takes it. */
export function randomRules(random: SeededRandom): object {
  const some = (of: number): string => {
    const chosen = digits.filter(() => random.below(of) === 0);
    return `s:*[${chosen.length === 0 ? random.below(10) : chosen.join('')}]`;
  };
  const policies = (): object[] => [policyTextOf(random.pick(resolutions))];
  const mappingRules: object[] = [];
  if (random.below(3) > 0) {
    const onlyNamed = random.below(3) === 0;
    const kept = { filter: some(2), storagePolicies: policies(), onlyNamed };
    mappingRules.push({ name: 'chosen', ...kept, aggregations: random.pick(readAs) });
  }
  if (random.below(3) > 0) {
    const read = { filter: some(2), storagePolicies: policies() };
    // Not in the order of names, by which they count.
    mappingRules.unshift({ name: 'read', ...read, aggregations: random.pick(readAs) });
  }
  if (random.below(2) > 0) mappingRules.push({ name: 'dropped', filter: some(3), drop: true });
  const rollupRules: object[] = [];
  for (const name of ['one', 'two']) {
    if (random.below(3) === 0) continue;
    const aggregations = ['Count', 'Sum', 'Max'];
    const rollup = { metricName: `rollup_${name}`, excludeBy: ['s'], aggregations };
    const storagePolicies = policies();
    rollupRules.push({ name, filter: some(2), transforms: [{ rollup }], storagePolicies });
  }
  if (random.below(3) > 0) rollupRules.push(totalRule(some(2), policies()));
  return { mappingRules, rollupRules };
}

/** Counts all rows: those of each series in a window, these of all series, and these of all windows. */
function totalRule(filter: string, storagePolicies: readonly object[]): object {
  const ofSeries = { metricName: 'rollup_parts', groupBy: ['s'], aggregations: ['Count'] };
  const ofAll = { metricName: 'rollup_total', groupBy: [], aggregations: ['Sum'] };
  const transforms = [{ rollup: ofSeries }, { rollup: ofAll }, { transform: { type: 'Add' } }];
  return { name: 'total', filter, transforms, storagePolicies };
}

/** Rules as they are stored, which are asked for far more often than they change. */
export class StoredRules {
  readonly #world: World;
  #item: KeyValue | null = null;
  #sets: RuleSetsOverTime = noRuleSets;
  /** What was asked for once. */
  readonly #kept = new Map<string, boolean>();

  constructor(world: World) {
    this.#world = world;
  }

  get sets(): RuleSetsOverTime {
    const item = this.#world.kvStore.get(`${ruleSetsPrefix(clusterName)}${ruleSet}`);
    if (item !== this.#item && item !== null) {
      this.#item = item;
      this.#sets = new RuleSetsOverTime(
        new Map([[ruleSet, new RulesOverTime(ruleSetOfItem(item))]]),
      );
      this.#kept.clear();
    }
    return this.#sets;
  }

  /** Whether the same rules hold at all times from one to another. */
  areSame(fromMillis: number, toMillis: number): boolean {
    const range = [fromMillis, toMillis].map((millis) => BigInt(millis) * nanosPerMilli);
    return this.sets.all.every((set) => set.between(range[0]!, range[1]!).length < 2);
  }

  /** Whether a row of a series is kept as it came. */
  keepsSamples(series: string, timeMillis: number): boolean {
    const tags = tagsOfSeries(series);
    const rules = this.sets.of(tags);
    return (
      rules === null ||
      rules.at(BigInt(timeMillis) * nanosPerMilli - 1n).match(tags).drops.length === 0
    );
  }

  /** As what the window of a series that ends then is read. */
  typeOf(shape: WindowsShape, series: string, endMillis: number): WindowType {
    const tags = tagsOfSeries(series);
    const beginNanos = BigInt(endMillis - shape.windowMillis) * nanosPerMilli;
    const policy = policyOf(shape);
    const match = this.sets.of(tags)?.at(beginNanos).match(tags);
    const types = [...(match?.mappings ?? [])]
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .filter(({ storagePolicies }) => storagePolicies.some((each) => isSamePolicy(each, policy)))
      .flatMap((rule) => rule.aggregations);
    return types.find(isWindowType) ?? 'Last';
  }

  /** Whether rules keep the window of a series that ends then. */
  keepsWindow(shape: WindowsShape, series: string, endMillis: number): boolean {
    const { sets } = this;
    const key = `${shape.namespace} ${series} ${endMillis}`;
    let kept = this.#kept.get(key);
    if (kept !== undefined) return kept;
    const policy = policyOf(shape);
    const { resolutionNanos } = policy;
    const target = { resolutionNanos, takesAll: shape.takesAll, policy };
    const startNanos = BigInt(endMillis) * nanosPerMilli;
    const range = { startNanos, endNanos: startNanos + 1n };
    kept = new KeptWindows(sets, target, range).of(encodeTags(tagsOfSeries(series))).length > 0;
    this.#kept.set(key, kept);
    return kept;
  }
}

/** As `seriesName` names it. */
export function tagsOfSeries(name: string): Tags {
  return name.split(',').map((tag) => {
    const [tagName, value] = tag.split('=') as [string, string];
    return { name: tagName, value };
  });
}
