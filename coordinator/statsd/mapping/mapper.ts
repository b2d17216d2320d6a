/** Finds the rule of a metric. Asked once for each name with its tags. */
import type { Mapping, MappingRule, MetricKind } from './mapping.ts';

/** A rule, and how it names what it takes. */
export interface Mapped {
  readonly rule: MappingRule;
  readonly name: string;
  readonly labels: readonly (readonly [name: string, value: string])[];
}

/** What stands for a part of a name in names and labels. */
const reference = /\$(?:\{(\w+)\}|(\w+))/g;

type GlobRule = {
  readonly rule: MappingRule;
  readonly components: readonly string[];
  readonly place: number;
};

export class Mapper {
  readonly #isOrdered: boolean;
  /** By number of components and the first of them. */
  readonly #globs = new Map<string, GlobRule[]>();
  readonly #regexps: MappingRule[] = [];

  constructor({ rules, isOrdered }: Mapping) {
    this.#isOrdered = isOrdered;
    for (const [place, rule] of rules.entries()) {
      if (rule.match.type === 'regex') {
        this.#regexps.push(rule);
        continue;
      }
      const { components } = rule.match;
      const key = `${components.length} ${components[0]}`;
      const list = this.#globs.get(key);
      const glob = { rule, components, place };
      if (list === undefined) this.#globs.set(key, [glob]);
      else list.push(glob);
    }
  }

  /** Globs come before regexps, as in statsd_exporter; null when no rule takes the metric. */
  map(name: string, kind: MetricKind): Mapped | null {
    const components = name.split('.');
    const glob = this.#globOf(components, kind);
    if (glob !== null) {
      const stars = components.filter((_, at) => glob.components[at] === '*');
      return mapped(glob.rule, (group) => stars[Number(group) - 1] ?? '');
    }
    for (const rule of this.#regexps) {
      if (rule.match.type !== 'regex' || (rule.kind !== null && rule.kind !== kind)) continue;
      const group = rule.match.regexp.firstGroups(name);
      if (group !== null) return mapped(rule, (of) => group(of) ?? '');
    }
    return null;
  }

  #globOf(components: readonly string[], kind: MetricKind): GlobRule | null {
    let best: GlobRule | null = null;
    for (const first of [components[0], '*']) {
      for (const glob of this.#globs.get(`${components.length} ${first}`) ?? []) {
        if (glob.rule.kind !== null && glob.rule.kind !== kind) continue;
        if (!glob.components.every((each, at) => each === '*' || each === components[at])) continue;
        if (best === null || this.#isBefore(glob, best)) best = glob;
      }
    }
    return best;
  }

  #isBefore(a: GlobRule, b: GlobRule): boolean {
    if (!this.#isOrdered) {
      const at = a.components.findIndex((each, i) => (each === '*') !== (b.components[i] === '*'));
      if (at >= 0) return a.components[at] !== '*';
    }
    return a.place < b.place;
  }
}

function mapped(rule: MappingRule, groupOf: (group: string) => string): Mapped {
  const expanded = (text: string): string =>
    text.replace(reference, (_, braced?: string, bare?: string) => groupOf((braced ?? bare)!));
  return {
    rule,
    name: expanded(rule.name),
    labels: rule.labels.map(([name, value]) => [name, expanded(value)]),
  };
}
