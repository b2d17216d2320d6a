/** Paths that there are: what a tree shows, and what a pattern means. */
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { nodeTag, pathOfTags } from '#lib/series_id/from_tags.ts';
import { decodeTags } from '#lib/tags.ts';
import { compareTexts } from '#lib/text_order.ts';
import { sortPaced } from '#lib/turns/paced.ts';
import type { Work } from '#lib/turns/turns.ts';
import type { Matcher, QueryStorage, SelectLimits, SelectRange } from '../../select/storage.ts';
import {
  type NodePattern,
  nodeMatchers,
  type PathPattern,
  pathMatchers,
  pathTest,
} from './path_pattern.ts';

/** A path that is the name of a series (a leaf), or under which there are others; one that is both is two nodes. */
export interface FoundNode {
  readonly path: string;
  readonly isLeaf: boolean;
}

/** By paths, or by last names first. */
export type NodeOrder = 'path' | 'name';

export function lastNode(path: string): string {
  return path.slice(path.lastIndexOf('.') + 1);
}

export interface FinderSetup {
  readonly storage: Pick<QueryStorage, 'labelValues' | 'series'>;
  readonly limits: SelectLimits;
  readonly range: SelectRange;
  readonly work: Work;
}

/** About what it takes to look at a series, in units of work (lib/turns/turns.ts). */
const seriesUnits = 500;

export class GraphiteFinder {
  readonly #setup: FinderSetup;
  readonly warnings: Set<string> = new Set();
  isExhaustive = true;

  constructor(setup: FinderSetup) {
    this.#setup = setup;
  }

  /** Nodes whose paths the pattern takes; of equal paths the branch comes first. */
  async find(pattern: PathPattern, order: NodeOrder): Promise<readonly FoundNode[]> {
    const { nodes, across } = pattern;
    const base = nodes.slice(0, -1);
    if (across === null && base.every(isLiteral)) {
      return await this.#sorted(
        await this.#under(
          base.map(({ text }) => text),
          nodes,
        ),
        order,
      );
    }
    return await this.#sorted(await this.#ofSeries(pattern), order);
  }

  /** Names of all series of Carbon. */
  async leaves(): Promise<readonly string[]> {
    const nodes = await this.#ofSeries({
      text: '**',
      nodes: [],
      across: { node: '.*', path: '.*' },
    });
    const leaves = nodes.filter(({ isLeaf }) => isLeaf);
    return (await this.#sorted(leaves, 'path')).map(({ path }) => path);
  }

  /** What stands under one path is asked of the index alone. */
  async #under(
    base: readonly string[],
    nodes: readonly NodePattern[],
  ): Promise<readonly FoundNode[]> {
    const matchers = nodeMatchers(nodes);
    const next = nodeTag(nodes.length);
    const found: FoundNode[] = [];
    for (const isLeaf of [false, true]) {
      const end: Matcher = { name: next, kind: isLeaf ? '=' : '!=', value: '' };
      const names = await this.#values(nodeTag(base.length), [...matchers, end]);
      found.push(...names.map((name) => ({ path: [...base, name].join('.'), isLeaf })));
    }
    return found;
  }

  async #values(name: string, matchers: readonly Matcher[]): Promise<readonly string[]> {
    const { storage, limits, range, work } = this.#setup;
    const { values, exhaustive, warnings } = await work.outside(
      storage.labelValues(name, [matchers], range, limits, work.signal),
    );
    this.#note(exhaustive, warnings);
    return values;
  }

  async #ofSeries(pattern: PathPattern): Promise<readonly FoundNode[]> {
    const { storage, limits, range, work } = this.#setup;
    const { nodes, across } = pattern;
    const matchers = across === null ? nodeMatchers(nodes) : pathMatchers(pattern);
    const { bundle, exhaustive, warnings } = await work.outside(
      storage.series([matchers], range, limits, work.signal),
    );
    this.#note(exhaustive, warnings);
    const test = pathTest(pattern);
    const [branches, leaves] = [new Set<string>(), new Set<string>()];
    for (let index = 0; index < bundle.seriesCount; index++) {
      const path = pathOf(bundle, index);
      if (path !== null) {
        for (const end of ends(path, test === null ? nodes.length : null)) {
          const prefix = path.slice(0, end);
          if (test !== null && !test(prefix)) continue;
          (end === path.length ? leaves : branches).add(prefix);
        }
      }
      if (work.spend(seriesUnits)) await work.pause();
    }
    return [
      ...[...branches].map((path) => ({ path, isLeaf: false })),
      ...[...leaves].map((path) => ({ path, isLeaf: true })),
    ];
  }

  #sorted(found: readonly FoundNode[], order: NodeOrder): Promise<readonly FoundNode[]> {
    const byPath = (a: FoundNode, b: FoundNode): number =>
      compareTexts(a.path, b.path) || Number(a.isLeaf) - Number(b.isLeaf);
    const byName = (a: FoundNode, b: FoundNode): number =>
      compareTexts(lastNode(a.path), lastNode(b.path)) || byPath(a, b);
    return sortPaced([...found], order === 'path' ? byPath : byName, this.#setup.work);
  }

  #note(exhaustive: boolean, warnings: readonly string[]): void {
    this.isExhaustive &&= exhaustive;
    for (const warning of warnings) this.warnings.add(warning);
  }
}

function isLiteral(node: NodePattern): node is NodePattern & { readonly kind: 'literal' } {
  return node.kind === 'literal';
}

function pathOf({ tagsData, tagsOffset }: SeriesBundle, index: number): string | null {
  return pathOfTags(decodeTags(tagsData.subarray(tagsOffset[index]!, tagsOffset[index + 1]!)));
}

/** Where nodes of a path end: of the one with that number, counted from 1, or of all when null. */
function ends(path: string, number: number | null): number[] {
  const all: number[] = [];
  for (let at = path.indexOf('.'); at >= 0; at = path.indexOf('.', at + 1)) all.push(at);
  all.push(path.length);
  if (number === null) return all;
  return number <= all.length ? [all[number - 1]!] : [];
}
