/** Which rules hold when: those of one set, and from when on a change of them can. */
import { RuleMatcher } from './match.ts';
import { cutoversOf, rulesAt, type RuleSet } from './rule_set.ts';

/** Until a change holds, so that every process has heard of it before. */
export const cutoverNoticeNanos: bigint = 60_000_000_000n;

/**
 * When a change that is made now comes to hold: where windows of the coarsest resolution end, so that
 * each window is of the rules that held when it began.
 * @param resolutions of the aggregated namespaces
 */
export function nextCutoverNanos(nowNanos: bigint, resolutions: Iterable<bigint>): bigint {
  let coarsest = cutoverNoticeNanos;
  for (const resolution of resolutions) if (resolution > coarsest) coarsest = resolution;
  const earliest = nowNanos + cutoverNoticeNanos;
  return ((earliest + coarsest - 1n) / coarsest) * coarsest;
}

/** The rules of one set between its cut-overs; an index is made when it is first asked for. */
export class RulesOverTime {
  readonly #set: RuleSet;
  /** Ascending. */
  readonly #cutovers: readonly bigint[];
  /** By the number of cut-overs that were before. */
  readonly #matchers: (RuleMatcher | undefined)[] = [];

  constructor(set: RuleSet) {
    this.#set = set;
    this.#cutovers = cutoversOf(set);
  }

  /** @param nanos when a window begins, which all of it is of the rules of */
  at(nanos: bigint): RuleMatcher {
    const stretch = this.#stretchOf(nanos);
    return (this.#matchers[stretch] ??= new RuleMatcher(rulesAt(this.#set, nanos)));
  }

  /** Whether the same rules hold at two times. */
  isSame(a: bigint, b: bigint): boolean {
    return this.#stretchOf(a) === this.#stretchOf(b);
  }

  #stretchOf(nanos: bigint): number {
    let low = 0;
    for (let high = this.#cutovers.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (this.#cutovers[middle]! <= nanos) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
