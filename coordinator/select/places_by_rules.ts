/**
 * Which namespace a series is read from, by the rules of the time (docs/AGGREGATION.md, Series that are not everywhere):
 * samples and what takes all have each one that no rule drops, an aggregated one those that rules name its policy for.
 */
import type { TagValues } from '#cluster/aggregation_rules/filter.ts';
import { queryOfFilter } from '#cluster/aggregation_rules/filter_query.ts';
import { typeTag } from '#cluster/aggregation_rules/rollups/outputs.ts';
import { KeptWindows } from '#cluster/aggregation_rules/sets/kept_windows.ts';
import {
  keepsWindows,
  type MappingMatch,
  rollupTag,
  ruleTagPrefix,
} from '#cluster/aggregation_rules/match.ts';
import {
  isException,
  metricNameTemplate,
  type MappingRule,
  type RollupRule,
  type RollupTarget,
  saysWhere,
} from '#cluster/aggregation_rules/rules.ts';
import type {
  HeldRule,
  RulesOverTime,
  RuleSetsOverTime,
  RulesStretch,
} from '#cluster/aggregation_rules/sets/over_time.ts';
import { TypesOfWindows } from '#cluster/aggregation_rules/sets/window_types.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { isNodeTag } from '#lib/series_id/from_tags.ts';
import { decodeTags, metricNameTag } from '#lib/tags.ts';
import { nanosPerMilli } from '#lib/time.ts';
import { greater, lesser } from './recent_windows.ts';
import type {
  Matcher,
  Resolution,
  Restriction,
  RowsAsked,
  SelectRange,
  SeriesPart,
  SeriesPlaces,
  StoragePolicy,
  WindowsKept,
  WindowTypes,
} from './storage.ts';

/** A query is cut at so many changes of rules at most: the last ones. */
const changesMax = 16;
/** Rules of exceptions that a query is narrowed by; with more it is asked for all that its matchers take. */
const narrowingFiltersMax = 64;

/** About what it takes to place a series that no rule is about, in units of work (lib/turns/turns.ts). */
const seriesUnits = 1_000;

/** A resolution as rules name it. */
export interface PlacedResolution extends Resolution {
  readonly policy: StoragePolicy;
}

type Source = PlacedResolution | null;

/** A source, and when the rules held by which what is asked of it is there. */
interface Asked {
  readonly source: Source;
  readonly fromNanos: bigint;
  /** Exclusive. */
  readonly pastNanos: bigint;
}

export class PlacesByRules implements SeriesPlaces {
  readonly #sets: RuleSetsOverTime;
  readonly #byName: ReadonlyMap<string, PlacedResolution>;

  constructor(sets: RuleSetsOverTime, resolutions: readonly PlacedResolution[]) {
    this.#sets = sets;
    this.#byName = new Map(resolutions.map((each) => [each.namespace, each]));
  }

  changes(
    matcherLists: readonly (readonly Matcher[])[],
    afterMillis: number,
    untilMillis: number,
  ): readonly number[] {
    const changes = new Set<number>();
    const [after, until] = [nanosOf(afterMillis), nanosOf(untilMillis)];
    const note = <R>(
      { rule, startNanos, endNanos }: HeldRule<R>,
      isAbout: (rule: R) => boolean,
    ): void => {
      const times = [startNanos, endNanos].filter((nanos) => nanos > after && nanos < until);
      if (times.length === 0 || !isAbout(rule)) return;
      for (const nanos of times) changes.add(Number(nanos / nanosPerMilli));
    };
    for (const rules of this.#sets.all) {
      for (const held of rules.mappingRulesWithin(after, until)) {
        note(held, (rule) => saysWhere(rule) && mayTake(rule, matcherLists));
      }
      for (const held of rules.rollupRulesWithin(after, until)) {
        note(held, ({ targets }) => targets.some((target) => mayMake(target, matcherLists)));
      }
    }
    return [...changes].sort((a, b) => a - b).slice(-changesMax);
  }

  parts(
    matcherLists: readonly (readonly Matcher[])[],
    asked: readonly RowsAsked[],
  ): readonly SeriesPart[] {
    const [only, ...others] = asked;
    if (only !== undefined && others.length === 0) return [{ of: only.of, restriction: null }];
    const placed = asked.map((rows) => this.#placed(rows));
    const rules = this.#relevant(matcherLists, placed);
    const base = placed.findIndex(takesAll);
    // Others than rules may have put something into one that does not take all.
    const needed = placed.filter(
      ({ source }, at) =>
        at === base || (source !== null && (!source.takesAll || rules.names(source))),
    );
    if (needed.length === 1) return [{ of: needed[0]!.source, restriction: null }];
    const chosen = new ChosenSources(needed, this.#sets, rules.stretches);
    const basePlace = needed.findIndex(takesAll);
    return needed.map(({ source }, place): SeriesPart => {
      const restriction: Restriction = {
        key: `${place} of ${chosen.key}`,
        takes: (tags) => chosen.of(tags) === place,
        units: (tagBytes) => chosen.units(tagBytes),
        within: basePlace >= 0 && place > basePlace ? rules.exceptions : null,
      };
      return { of: source, restriction };
    });
  }

  /** A row is of the rules of just before it, a window of those of its begin. */
  #placed({ of, afterMillis, untilMillis }: RowsAsked): Asked {
    const after = nanosOf(afterMillis);
    const until = nanosOf(untilMillis);
    if (of === null) return askedOf(null, after, until);
    const source = this.#byName.get(of.namespace)!;
    const { resolutionNanos } = source.policy;
    const lastBegin = until - (until % resolutionNanos) - resolutionNanos;
    return askedOf(source, after - (after % resolutionNanos), lastBegin + 1n);
  }

  kept({ namespace }: Resolution, range: SelectRange): WindowsKept | null {
    const { policy, takesAll } = this.#byName.get(namespace)!;
    if (takesAll && !this.#sets.all.some(({ hasExceptions }) => hasExceptions)) return null;
    const { resolutionNanos } = policy;
    return new KeptWindows(this.#sets, { policy, takesAll, resolutionNanos }, range);
  }

  *types(
    { namespace }: Pick<Resolution, 'namespace'>,
    matcherLists: readonly (readonly Matcher[])[],
    range: SelectRange,
  ): Generator<void, WindowTypes | null> {
    const policy = this.#byName.get(namespace)?.policy;
    if (policy === undefined) return null;
    return yield* TypesOfWindows.inSteps(this.#sets, policy, range, (rule) =>
      mayTake(rule, matcherLists),
    );
  }

  #relevant(matcherLists: readonly (readonly Matcher[])[], asked: readonly Asked[]): RelevantRules {
    const fromNanos = asked.reduce((least, each) => lesser(least, each.fromNanos), afterAll);
    const pastNanos = asked.reduce((most, each) => greater(most, each.pastNanos), fromNanos);
    return new RelevantRules(this.#sets, [fromNanos, pastNanos], matcherLists);
  }
}

const afterAll = 2n ** 63n - 1n;

/** Rules of a moment at least. */
function askedOf(source: Source, fromNanos: bigint, pastNanos: bigint): Asked {
  return { source, fromNanos, pastNanos: greater(pastNanos, fromNanos + 1n) };
}

function nanosOf(millis: number): bigint {
  return BigInt(Math.floor(millis)) * nanosPerMilli;
}

const takesAll = ({ source }: Asked): boolean => source === null || source.takesAll;

/** Rules of a range of time that may be about series that matchers take. */
class RelevantRules {
  readonly stretches: ReadonlyMap<RulesOverTime, readonly RulesStretch[]>;
  readonly #policies = new Set<string>();
  readonly #exceptions: MappingRule[] = [];

  constructor(
    sets: RuleSetsOverTime,
    range: readonly [fromNanos: bigint, pastNanos: bigint],
    matcherLists: readonly (readonly Matcher[])[],
  ) {
    this.stretches = new Map(sets.all.map((rules) => [rules, rules.between(...range)]));
    for (const rules of sets.all) {
      for (const { rule } of rules.mappingRulesWithin(...range)) {
        if (!mayTake(rule, matcherLists)) continue;
        if (isException(rule)) this.#exceptions.push(rule);
        for (const policy of rule.storagePolicies) this.#policies.add(keyOf(policy));
      }
      for (const { rule } of rules.rollupRulesWithin(...range)) {
        for (const target of rule.targets) {
          if (!mayMake(target, matcherLists)) continue;
          for (const policy of target.storagePolicies) this.#policies.add(keyOf(policy));
        }
      }
    }
  }

  /** Whether one of them names the policy of a namespace. */
  names({ policy }: PlacedResolution): boolean {
    return this.#policies.has(keyOf(policy));
  }

  /** Series that are not wherever all are; null when they cannot be told by few conditions. */
  get exceptions(): IndexQuery | null {
    if (this.#exceptions.length > narrowingFiltersMax) return null;
    const rollups: IndexQuery = { kind: 'term', field: rollupTag, term: 'true' };
    const mapped = this.#exceptions.map(({ filter }) => queryOfFilter(filter));
    return mapped.length === 0 ? rollups : { kind: 'disjunction', queries: [rollups, ...mapped] };
  }
}

function keyOf({ resolutionNanos, retentionNanos }: StoragePolicy): string {
  return `${resolutionNanos}:${retentionNanos}`;
}

/** Whether a rule may match what one of the lists takes. */
function mayTake(
  { filter, path }: MappingRule,
  matcherLists: readonly (readonly Matcher[])[],
): boolean {
  if (matcherLists.length === 0) return true;
  return matcherLists.some((matchers) => {
    const equalities = matchers.filter(({ kind }) => kind === '=');
    // What has a path has no other tags.
    if (path !== null && equalities.some((each) => each.value !== '' && !isNodeTag(each.name))) {
      return false;
    }
    return filter.every(({ name, pattern }) =>
      equalities.every((matcher) => {
        if (matcher.name !== name) return true;
        // What a series has not got no pattern matches, but for the metric's name.
        if (matcher.value === '' && name !== metricNameTag) return false;
        return pattern.matches(matcher.value);
      }),
    );
  });
}

/** Whether what a target makes may be what one of the lists takes. */
function mayMake(target: RollupTarget, matcherLists: readonly (readonly Matcher[])[]): boolean {
  if (matcherLists.length === 0) return true;
  const output = outputOf(target);
  if (output === null) return true;
  return matcherLists.some((matchers) =>
    matchers.every(({ name, kind, value }) => {
      if (kind !== '=') return true;
      if (name === metricNameTag) return isNameOf(output.metricName, value);
      return name !== rollupTag || value === 'true';
    }),
  );
}

/** What is stored is made by the last rollup of a target. */
function outputOf({ operations }: RollupTarget) {
  return operations.findLast((operation) => operation.type === 'rollup') ?? null;
}

function isNameOf(template: string, name: string): boolean {
  const at = template.indexOf(metricNameTemplate);
  if (at < 0) return template === name;
  const [before, after] = [template.slice(0, at), template.slice(at + metricNameTemplate.length)];
  const isLongEnough = name.length >= before.length + after.length;
  return isLongEnough && name.startsWith(before) && name.endsWith(after);
}

/** Which of some sources each series is read from. */
class ChosenSources {
  readonly #asked: readonly Asked[];
  readonly #sets: RuleSetsOverTime;
  readonly #stretches: ReadonlyMap<RulesOverTime, readonly RulesStretch[]>;

  constructor(
    asked: readonly Asked[],
    sets: RuleSetsOverTime,
    stretches: ReadonlyMap<RulesOverTime, readonly RulesStretch[]>,
  ) {
    this.#asked = asked;
    this.#sets = sets;
    this.#stretches = stretches;
  }

  /** The same for all that choose alike: by the same rules, of the same sources. */
  get key(): string {
    const rules = this.#sets.all.map((rules) => {
      const stretches = this.#stretches.get(rules)!;
      return this.#asked.map((asked) => {
        const looked = stretches.filter((stretch) => isLookedAt(stretch, asked));
        return looked.map(({ startNanos }) => rules.around(startNanos).startNanos).join('+');
      });
    });
    return `${this.#asked.map(({ source }) => source?.namespace ?? '').join()} by ${rules.join(' ')}`;
  }

  /** Its place. */
  of(tags: Uint8Array): number {
    const decoded = decodeTags(tags);
    const values: TagValues = new Map(decoded.map(({ name, value }) => [name, value]));
    if (values.get(rollupTag) === 'true') return this.#ofRollup(values);
    const rules = this.#sets.of(decoded);
    const stretches = rules === null ? [] : this.#stretches.get(rules)!;
    const matches = new Map<RulesStretch, MappingMatch>();
    return this.#firstThroughout(stretches, (stretch, source) => {
      let match = matches.get(stretch);
      if (match === undefined) {
        match = stretch.matcher.matchMappings(decoded);
        matches.set(stretch, match);
      }
      return source === null ? match.drops.length === 0 : keepsWindows(match, source);
    });
  }

  /** About what that takes at most, in units of work (lib/turns/turns.ts). @param tagBytes of the series */
  units(tagBytes: number): number {
    const all = [...this.#stretches.values()].map((stretches) =>
      stretches.reduce((sum, { matcher }) => sum + matcher.mappingUnits(tagBytes), 0),
    );
    return Math.max(seriesUnits, ...all);
  }

  #ofRollup(values: TagValues): number {
    // They may be of any set: those of a set are not told from others.
    const sets = [...this.#stretches.values()].filter((stretches) =>
      stretches.some(({ rules }) => rules.rollupRules.some((rule) => makes(rule, values, null))),
    );
    const stretches = sets[0] ?? [];
    if (stretches.length === 0) {
      // Of no rule that is known: its rules are forgotten, or others have put it where not all are. Samples have none.
      return Math.max(
        0,
        this.#asked.findIndex((asked) => !takesAll(asked)),
      );
    }
    return this.#firstThroughout(
      stretches,
      ({ rules }, source) =>
        source !== null && rules.rollupRules.some((rule) => makes(rule, values, source.policy)),
    );
  }

  /** The first that has it throughout, else the one that has it last, else the first that takes all. */
  #firstThroughout(
    stretches: readonly RulesStretch[],
    isIn: (stretch: RulesStretch, source: Source) => boolean,
  ): number {
    const throughout = this.#asked.findIndex((asked) =>
      stretches.length === 0
        ? takesAll(asked)
        : stretches.every((stretch) => !isLookedAt(stretch, asked) || isIn(stretch, asked.source)),
    );
    if (throughout >= 0) return throughout;
    for (const stretch of stretches.toReversed()) {
      const last = this.#asked.findIndex(
        (asked) => isLookedAt(stretch, asked) && isIn(stretch, asked.source),
      );
      if (last >= 0) return last;
    }
    return Math.max(0, this.#asked.findIndex(takesAll));
  }
}

function isLookedAt({ startNanos, endNanos }: RulesStretch, asked: Asked): boolean {
  return startNanos < asked.pastNanos && endNanos > asked.fromNanos;
}

/** Whether a rule makes the series. @param policy where; null for anywhere */
function makes(rule: RollupRule, values: TagValues, policy: StoragePolicy | null): boolean {
  return rule.targets.some((target) => {
    if (policy !== null && !target.storagePolicies.some((each) => keyOf(each) === keyOf(policy))) {
      return false;
    }
    const output = outputOf(target);
    if (output === null || !isNameOf(output.metricName, values.get(metricNameTag) ?? '')) {
      return false;
    }
    const ofRule = rule.tags.filter(
      ({ name, value }) => value !== '' && !name.startsWith(ruleTagPrefix),
    );
    if (!ofRule.every(({ name, value }) => values.get(name) === value)) return false;
    if (output.by === 'exclude')
      return output.tags.every(
        (name) => !values.has(name) || ofRule.some((tag) => tag.name === name),
      );
    const expected = new Set([
      metricNameTag,
      rollupTag,
      ...output.tags,
      ...ofRule.map(({ name }) => name),
      // One of several types has a series of its own.
      ...(output.aggregations.length > 1 ? [typeTag] : []),
    ]);
    return values.size === expected.size && [...values.keys()].every((name) => expected.has(name));
  });
}
