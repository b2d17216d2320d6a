/**
 * Rules of aggregation, as M3 has them (docs/AGGREGATION.md, Rules): mapping rules say at which
 * resolutions series are kept, or that they are not; rollup rules make other series of them.
 */
import type { Tag } from '#lib/tags.ts';
import { type AggregationType, isWindowType, type WindowType } from './aggregation_types.ts';
import type { Filter } from './filter.ts';
import type { PathCondition } from './path_condition.ts';

/** Names the aggregated namespace that has both. */
export interface StoragePolicy {
  readonly resolutionNanos: bigint;
  readonly retentionNanos: bigint;
}

export function isSamePolicy(a: StoragePolicy, b: StoragePolicy): boolean {
  return a.resolutionNanos === b.resolutionNanos && a.retentionNanos === b.retentionNanos;
}

export const transformTypes = ['Absolute', 'PerSecond', 'Increase', 'Add', 'Reset'] as const;
export type TransformType = (typeof transformTypes)[number];

/** In a name of a rollup it stands for the name of the metric that is rolled up. */
export const metricNameTemplate = '{{ .MetricName }}';

export interface RollupOperation {
  readonly type: 'rollup';
  /** May have `metricNameTemplate` once. */
  readonly metricName: string;
  /** Whether `tags` are those that stay, which a series has to have, or those that go. */
  readonly by: 'group' | 'exclude';
  /** Sorted. */
  readonly tags: readonly string[];
  /** Empty for that of the kind of metric. */
  readonly aggregations: readonly AggregationType[];
}

export interface TransformOperation {
  readonly type: 'transform';
  readonly transform: TransformType;
}

export interface AggregateOperation {
  readonly type: 'aggregate';
  readonly aggregation: AggregationType;
}

export type Operation = RollupOperation | TransformOperation | AggregateOperation;

interface Rule {
  readonly name: string;
  readonly filterText: string;
  /** Of the text, and what else all series have that match. */
  readonly filter: Filter;
  /** Given to what the rule makes. */
  readonly tags: readonly Tag[];
}

/**
 * Whether rows of what matches are kept as they came: `ifOnlyMatch` leaves what other mapping rules
 * ask for, `must` nothing of that.
 */
export const dropPolicies = ['none', 'ifOnlyMatch', 'must'] as const;
export type DropPolicy = (typeof dropPolicies)[number];

export interface MappingRule extends Rule {
  /** With it only series of Carbon match that have a path. */
  readonly path: PathCondition | null;
  /** Aggregated namespaces that no matching rule names have no windows of what matches, be it that they take all. */
  readonly onlyNamed: boolean;
  /** The fields below are empty for one that drops. */
  readonly drop: DropPolicy;
  /** Empty for that of the kind of metric. */
  readonly aggregations: readonly AggregationType[];
  /** Empty also for one that says no more than how the rows of a path are read. */
  readonly storagePolicies: readonly StoragePolicy[];
}

interface Named {
  readonly name: string;
}

/** Numbers in names, as texts of so many digits. */
const digitsOfNumber = 20;
/** By which they are compared: matches of series are sorted all the time. */
const nameKeys = new WeakMap<Named, string>();

function nameKeyOf(rule: Named): string {
  let key = nameKeys.get(rule);
  if (key === undefined) {
    key = rule.name.replace(/\d+/g, (digits) => digits.padStart(digitsOfNumber, '0'));
    nameKeys.set(rule, key);
  }
  return key;
}

/**
 * By their names, whenever they came into their set: where the order of rules counts it is this one. Numbers in names count as
 * such, so that rules that are called by their places in a file stand as they do there.
 */
export function inOrderOfNames<R extends Named>(rules: readonly R[]): R[] {
  const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
  return rules.toSorted((a, b) => compare(nameKeyOf(a), nameKeyOf(b)) || compare(a.name, b.name));
}

/** Whether it says where rows are kept, and not only how they are read. */
export function saysWhere({ drop, storagePolicies }: MappingRule): boolean {
  return drop !== 'none' || storagePolicies.length > 0;
}

/** As what windows of its policies are read where their values are asked for; null where it does not say. */
export function windowTypeOf({ aggregations }: MappingRule): WindowType | null {
  return aggregations.find(isWindowType) ?? null;
}

export function namesPolicy({ storagePolicies }: MappingRule, policy: StoragePolicy): boolean {
  return storagePolicies.some((each) => isSamePolicy(each, policy));
}

/** Whether a series that matches may lack where all are that no rule says something of. */
export function isException({ drop, onlyNamed }: MappingRule): boolean {
  return drop !== 'none' || onlyNamed;
}

export interface RollupTarget {
  /** At least one; `aggregate` is the first or nowhere. */
  readonly operations: readonly Operation[];
  readonly storagePolicies: readonly StoragePolicy[];
  /** As M3 has it: rows that come late have what they change made again here, whatever it says. */
  readonly resendEnabled: boolean;
}

/** What these come to in a window depends on what was before it. */
export const changeTransforms: readonly TransformType[] = ['Increase', 'PerSecond'];

/** Whether one of its transforms is of one of these types. */
export function hasTransform(
  { operations }: RollupTarget,
  types: readonly TransformType[],
): boolean {
  return operations.some((each) => each.type === 'transform' && types.includes(each.transform));
}

export interface RollupRule extends Rule {
  /** As M3's API has it: its coordinators keep the original all the same, and so do ours. */
  readonly keepOriginal: boolean;
  readonly targets: readonly RollupTarget[];
}

export interface Rules {
  readonly mappingRules: readonly MappingRule[];
  readonly rollupRules: readonly RollupRule[];
}
