/** What the rules say of a series: asked once, when it is new. */
import {
  metricNameTag,
  sortTags,
  type Tag,
  type Tags,
  tagsBytesMax,
  tagsCountMax,
} from '#lib/tags.ts';
import type { AggregationType, WindowType } from './aggregation_types.ts';
import { filterMatches, type TagValues } from './filter.ts';
import { RuleIndex } from './index.ts';
import { pathCharactersMax, pathOfValues } from './path_condition.ts';
import {
  inOrderOfNames,
  metricNameTemplate,
  namesPolicy,
  saysWhere,
  windowTypeOf,
  type MappingRule,
  type RollupOperation,
  type RollupRule,
  type RollupTarget,
  type Rules,
  type StoragePolicy,
  type TransformType,
} from './rules.ts';

/** Tags that begin with it are for rules alone: nothing that is stored has them. */
export const ruleTagPrefix = '__m3';
/** Has the value 'true' in all that rollups make. */
export const rollupTag = '__rollup__';

/** What is done with windows after the one before. */
export type Stage =
  | { readonly type: 'transform'; readonly transform: TransformType }
  | {
      readonly type: 'rollup';
      readonly output: Tags;
      readonly aggregations: readonly AggregationType[];
    };

/** A target of a rollup rule as it is for one series. */
export interface Pipeline {
  readonly rule: RollupRule;
  readonly target: RollupTarget;
  /** Of the rows of the series; empty for that of the kind of metric. */
  readonly aggregations: readonly AggregationType[];
  /** The series that it makes of them; null for the series itself. */
  readonly output: Tags | null;
  readonly stages: readonly Stage[];
}

export interface MappingMatch {
  /** Those that match and are followed, by their names, those with paths last: none where one that matches must drop. */
  readonly mappings: readonly MappingRule[];
  /** Those that match and drop: with one the rows are not kept as they came. */
  readonly drops: readonly MappingRule[];
}

/** How rows of a path of Carbon are read. */
export interface PathReading {
  /** The finest resolution that rules name for it; null where none does. */
  readonly stepNanos: bigint | null;
  /** What rows of a step come to: the first type that windows have; null where no rule says one. */
  readonly aggregation: WindowType | null;
}

export interface RuleMatch extends MappingMatch {
  readonly pipelines: readonly Pipeline[];
}

/** About what it takes to find the rules of a series, in units of work (lib/turns/turns.ts). */
const indexUnits = 1_000;
/** Pipelines that are known, of all targets, of some 650 bytes each: with more all are forgotten, for they are made anew at no great cost. */
const pipelinesMax = 100_000;
/** Patterns of filters that take fewer steps are among the units of the index. */
const dearStepsMin = 64;
/** Of a step of a pattern. */
const stepUnits = 4;
/** To try the path of a rule on a series; and for each byte of its tags. */
const pathRuleUnits = 250;
const pathRuleUnitsAByte = 5;

/** About what it takes at most to try so many rules with paths on a series. @param tagBytes of it, canonical */
export function pathRulesUnits(rulesCount: number, tagBytes: number): number {
  return rulesCount * (pathRuleUnits + pathRuleUnitsAByte * Math.min(tagBytes, pathCharactersMax));
}

export class RuleMatcher {
  readonly #places: MappingRules;
  readonly #readings: MappingRules;
  readonly #rollupRules: readonly RollupRule[];
  readonly #rollupIndex: RuleIndex;
  /** By rule. */
  readonly #targets: ReadonlyMap<RollupRule, readonly TargetPipelines[]>;

  constructor({ mappingRules, rollupRules }: Rules) {
    this.#places = new MappingRules(mappingRules.filter(saysWhere));
    this.#readings = new MappingRules(mappingRules.filter((rule) => !saysWhere(rule)));
    this.#rollupRules = rollupRules;
    this.#rollupIndex = new RuleIndex(rollupRules.map(({ filter }) => filter));
    const known = new Map<string, Pipeline>();
    let count = 0;
    this.#targets = new Map(
      rollupRules.map((rule) => [
        rule,
        rule.targets.map((each) => new TargetPipelines(rule, each, known, count++)),
      ]),
    );
  }

  match(tags: readonly Tag[]): RuleMatch {
    const values = valuesOf(tags);
    return { ...this.#mappingMatch(values), pipelines: this.#pipelines(values) };
  }

  /** About what that takes at most, in units of work. @param tagBytes of the series, canonical */
  mappingUnits(tagBytes: number): number {
    const ofPaths = pathRulesUnits(this.#places.pathsCount, tagBytes);
    return indexUnits + ofPaths + stepUnits * this.#places.dearSteps;
  }

  /** What of `match` is about the series itself. */
  matchMappings(tags: readonly Tag[]): MappingMatch {
    return this.#mappingMatch(valuesOf(tags));
  }

  /** What of `match` is about series that it makes: the same objects for series that are rolled up alike, as a rule. */
  matchRollups(tags: readonly Tag[]): readonly Pipeline[] {
    return this.#pipelines(valuesOf(tags));
  }

  /** By rules with paths alone. */
  pathReading(tags: readonly Tag[]): PathReading {
    const values = valuesOf(tags);
    const kept = this.#places.matching(values).filter(({ path }) => path !== null);
    const steps = kept.flatMap(({ storagePolicies }) =>
      storagePolicies.map(({ resolutionNanos }) => resolutionNanos),
    );
    const said = [...this.#readings.matching(values), ...kept];
    return {
      stepNanos: steps.length === 0 ? null : steps.reduce((a, b) => (b < a ? b : a)),
      aggregation: said.map(windowTypeOf).find((type) => type !== null) ?? null,
    };
  }

  #pipelines(values: TagValues): Pipeline[] {
    return matching(this.#rollupIndex, this.#rollupRules, values).flatMap((rule) =>
      this.#targets
        .get(rule)!
        .map((target) => target.of(values))
        .filter((pipeline) => pipeline !== null),
    );
  }

  #mappingMatch(values: TagValues): MappingMatch {
    const all = this.#places.matching(values);
    const mustDrop = all.some(({ drop }) => drop === 'must');
    return {
      mappings: mustDrop ? [] : all.filter(({ drop }) => drop === 'none'),
      drops: all.filter(({ drop }) => drop !== 'none'),
    };
  }
}

/** Mapping rules of which those with paths are one list, in which the first counts that matches. */
class MappingRules {
  /** Those with paths are the last ones, in their order. */
  readonly #rules: readonly MappingRule[];
  readonly #index: RuleIndex;
  readonly pathsCount: number;
  /** Of all patterns that take many. */
  readonly dearSteps: number;

  constructor(rules: readonly MappingRule[]) {
    const withPaths = inOrderOfNames(rules.filter(({ path }) => path !== null)).sort(
      (a, b) => a.path!.order - b.path!.order,
    );
    this.#rules = [...rules.filter(({ path }) => path === null), ...withPaths];
    this.#index = new RuleIndex(this.#rules.map(({ filter }) => filter));
    this.pathsCount = withPaths.length;
    this.dearSteps = this.#rules
      .flatMap(({ filter }) => filter.map(({ pattern }) => pattern.steps))
      .reduce((sum, steps) => (steps < dearStepsMin ? sum : sum + steps), 0);
  }

  /** Those without paths by their names, then the others in their order. */
  matching(values: TagValues): MappingRule[] {
    const plain: MappingRule[] = [];
    const ofPaths: MappingRule[] = [];
    let path: string | null = null;
    for (const rule of matching(this.#index, this.#rules, values)) {
      const condition = rule.path;
      if (condition === null) {
        plain.push(rule);
        continue;
      }
      path ??= pathOfValues(values);
      if (path === null) break;
      if (!condition.matches(path)) continue;
      ofPaths.push(rule);
      if (!condition.continues) break;
    }
    return [...(plain.length > 1 ? inOrderOfNames(plain) : plain), ...ofPaths];
  }
}

function valuesOf(tags: readonly Tag[]): TagValues {
  return new Map(tags.map(({ name, value }) => [name, value]));
}

function matching<R extends MappingRule | RollupRule>(
  index: RuleIndex,
  rules: readonly R[],
  values: TagValues,
): R[] {
  return index
    .candidates(values)
    .map((at) => rules[at]!)
    .filter(({ filter }) => filterMatches(filter, values));
}

/** Whether a series has windows in an aggregated namespace, by the rules that match it. */
export function keepsWindows({ mappings, drops }: MappingMatch, target: MappingTarget): boolean {
  const isNamed = mappings.some((rule) => namesPolicy(rule, target.policy));
  const isException = drops.length > 0 || mappings.some(({ onlyNamed }) => onlyNamed);
  return isNamed || (target.takesAll && !isException);
}

/**
 * As what windows of an aggregated namespace are read where their values are asked for, by the rules that match their series:
 * what the first of these says that names its policy and has a type that windows have.
 */
export function valueTypeOf({ mappings }: MappingMatch, policy: StoragePolicy): WindowType {
  for (const rule of mappings) {
    const type = namesPolicy(rule, policy) ? windowTypeOf(rule) : null;
    if (type !== null) return type;
  }
  return 'Last';
}

/** An aggregated namespace, as rules see it. */
export interface MappingTarget {
  readonly policy: StoragePolicy;
  /** It takes what no rule says something else of. */
  readonly takesAll: boolean;
}

/** Of a target that groups by tags, pipelines by the values of these: there are few of them, for many series. */
class TargetPipelines {
  readonly #rule: RollupRule;
  readonly #target: RollupTarget;
  /** Null where the others stay. */
  readonly #groupedBy: readonly string[] | null;
  readonly #known: Map<string, Pipeline>;
  readonly #number: number;

  /** @param known of all targets, which `number` tells apart */
  constructor(
    rule: RollupRule,
    target: RollupTarget,
    known: Map<string, Pipeline>,
    number: number,
  ) {
    this.#known = known;
    this.#number = number;
    this.#rule = rule;
    this.#target = target;
    const rollups = target.operations.filter(
      (each): each is RollupOperation => each.type === 'rollup',
    );
    this.#groupedBy = rollups.every(({ by }) => by === 'group')
      ? [...new Set(rollups.flatMap(({ tags }) => tags))]
      : null;
  }

  /** As `pipelineOf`. */
  of(values: TagValues): Pipeline | null {
    if (this.#groupedBy === null) return pipelineOf(this.#rule, this.#target, values);
    const metricName = values.get(metricNameTag) ?? '';
    let key = `${this.#number} ${metricName.length} ${metricName}`;
    for (const name of this.#groupedBy) {
      const value = values.get(name);
      if (value === undefined) return null;
      key += `\0${value.length} ${value}`;
    }
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const made = pipelineOf(this.#rule, this.#target, values);
    if (made === null) return null;
    if (this.#known.size === pipelinesMax) this.#known.clear();
    this.#known.set(key, made);
    return made;
  }
}

/** Null when the series lacks a tag that the target groups by, or what it goes into could not be stored. */
function pipelineOf(rule: RollupRule, target: RollupTarget, values: TagValues): Pipeline | null {
  const [first, ...rest] = target.operations;
  let output: Tags | null = null;
  let aggregations: readonly AggregationType[] = [];
  if (first!.type === 'rollup') {
    output = outputOf(first!, rule.tags, values);
    if (output === null) return null;
    ({ aggregations } = first!);
  } else if (first!.type === 'aggregate') {
    aggregations = [first!.aggregation];
  } else {
    rest.unshift(first!);
  }
  const stages: Stage[] = [];
  for (const operation of rest) {
    if (operation.type === 'transform') {
      stages.push({ type: 'transform', transform: operation.transform });
    } else if (operation.type === 'rollup') {
      const outputOfStage = outputOf(operation, rule.tags, values);
      if (outputOfStage === null) return null;
      stages.push({
        type: 'rollup',
        output: outputOfStage,
        aggregations: operation.aggregations,
      });
    }
  }
  return { rule, target, aggregations, output, stages };
}

/**
 * Tags of what a rollup makes of a series, or null when it lacks one that is grouped by, or they are more than a series may
 * have: storage would refuse them, and with them what else is made.
 */
function outputOf(
  operation: RollupOperation,
  ruleTags: readonly Tag[],
  values: TagValues,
): Tags | null {
  const output = new Map<string, string>([
    [metricNameTag, newName(operation.metricName, values.get(metricNameTag) ?? '')],
    [rollupTag, 'true'],
  ]);
  if (operation.by === 'group') {
    for (const name of operation.tags) {
      const value = values.get(name);
      if (value === undefined) return null;
      output.set(name, value);
    }
  } else {
    for (const [name, value] of values) {
      const stays = name !== metricNameTag && !name.startsWith(ruleTagPrefix);
      if (stays && !operation.tags.includes(name)) output.set(name, value);
    }
  }
  for (const { name, value } of ruleTags) {
    if (value !== '' && !name.startsWith(ruleTagPrefix)) output.set(name, value);
  }
  const tags = sortTags([...output].map(([name, value]) => ({ name, value })));
  return isTooMuch(tags) ? null : tags;
}

/** Of the tag of a type, which comes to it where there are several. */
const typeTagBytes = 32;
const utf8BytesOfUnitMax = 3;

function isTooMuch(tags: Tags): boolean {
  if (tags.length >= tagsCountMax) return true;
  const room = tagsBytesMax - typeTagBytes - 4 * tags.length;
  const units = tags.reduce((sum, { name, value }) => sum + name.length + value.length, 0);
  if (utf8BytesOfUnitMax * units <= room) return false;
  return Buffer.byteLength(tags.map(({ name, value }) => name + value).join('')) > room;
}

function newName(template: string, name: string): string {
  // Not `replace` with a text, in which `$` would stand for something.
  return template.replace(metricNameTemplate, () => name);
}
