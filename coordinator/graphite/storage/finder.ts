/** Paths that there are: what a tree shows, and what a pattern means. The index alone is asked, and tells each path once. */
import { nodeNumber, nodeTag } from '#lib/series_id/from_tags.ts';
import { compareTexts } from '#lib/text_order.ts';
import { sortPaced } from '#lib/turns/paced.ts';
import type { Work } from '#lib/turns/turns.ts';
import type {
  JoinedValuesStorage,
  LabelResult,
  Matcher,
  QueryStorage,
  SelectLimits,
  SelectRange,
} from '../../select/storage.ts';
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
  readonly storage: Pick<QueryStorage, 'labelNames' | 'labelValues'> & JoinedValuesStorage;
  readonly limits: SelectLimits;
  readonly range: SelectRange;
  readonly work: Work;
}

/** About what it takes to look at a path, in units of work (lib/turns/turns.ts). */
const pathUnits = 300;

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
    if (across !== null) return await this.#sorted(await this.#foundAcross(pattern), order);
    const found = await this.#bothKinds(nodes, (matchers) => this.#paths(nodes, matchers));
    return await this.#sorted(found, order);
  }

  /** The last names of these nodes in the place of their paths: in a tree those of one name are one. */
  async findNames(pattern: PathPattern): Promise<readonly FoundNode[]> {
    const { nodes, across } = pattern;
    if (across === null) {
      const last = nodeTag(nodes.length - 1);
      const found = await this.#bothKinds(nodes, (matchers) => this.#values(last, matchers));
      return await this.#sorted(found, 'path');
    }
    const names = [new Set<string>(), new Set<string>()] as const;
    for (const { path, isLeaf } of await this.#foundAcross(pattern)) {
      names[isLeaf ? 1 : 0].add(lastNode(path));
    }
    return await this.#sorted(nodesOf(...names), 'path');
  }

  /** Names of all series of Carbon. */
  async leaves(): Promise<readonly string[]> {
    const all = { text: '**', nodes: [], across: { node: '.*', rest: '.*' } };
    return await sortPaced(await this.#leavesAcross(all), compareTexts, this.#setup.work);
  }

  /** What goes on behind these nodes, and what ends with the last one of them. */
  async #bothKinds(
    nodes: readonly NodePattern[],
    ask: (matchers: readonly Matcher[]) => Promise<readonly string[]>,
  ): Promise<FoundNode[]> {
    const matchers = nodeMatchers(nodes);
    const name = nodeTag(nodes.length);
    const [branches, leaves] = await Promise.all([
      ask([...matchers, { name, kind: '!=', value: '' }]),
      ask([...matchers, { name, kind: '=', value: '' }]),
    ]);
    return nodesOf(branches, leaves);
  }

  /** Begins of paths, as long as the pattern. Under one path the values of the next tag say all. */
  async #paths(
    nodes: readonly NodePattern[],
    matchers: readonly Matcher[],
  ): Promise<readonly string[]> {
    const base = nodes.slice(0, -1);
    if (!base.every(isLiteral)) return await this.#joined(nodes.length, matchers);
    const names = await this.#values(nodeTag(base.length), matchers);
    const before = base.map(({ text }) => text);
    return names.map((name) => [...before, name].join('.'));
  }

  async #foundAcross(pattern: PathPattern): Promise<FoundNode[]> {
    const { work } = this.#setup;
    const test = pathTest(pattern)!;
    const [branches, leaves] = [new Set<string>(), new Set<string>()];
    for (const path of await this.#leavesAcross(pattern)) {
      for (const end of ends(path)) {
        const prefix = path.slice(0, end);
        // A prefix that others have, too, was looked at with the first of them.
        if (end < path.length && branches.has(prefix)) continue;
        if (work.spend(test.units(end))) await work.pause();
        if (test.takes(prefix)) (end === path.length ? leaves : branches).add(prefix);
      }
      if (work.spend(pathUnits)) await work.pause();
    }
    return nodesOf(branches, leaves);
  }

  /** Paths of series that may have a node that the pattern takes, one length after the other. */
  async #leavesAcross(pattern: PathPattern): Promise<readonly string[]> {
    const { storage, limits, range, work } = this.#setup;
    const matchers = pathMatchers(pattern);
    const names = await this.#noted(storage.labelNames([matchers], range, limits, work.signal));
    const nodesEnd = Math.max(0, ...names.map((name) => nodeNumber(name) + 1));
    const paths: string[] = [];
    for (let count = pattern.nodes.length + 1; count <= nodesEnd; count++) {
      // Those that are shorter would be looked at once more for each node of the longest one.
      const length: Matcher[] = [
        { name: nodeTag(count - 1), kind: '!=', value: '' },
        { name: nodeTag(count), kind: '=', value: '' },
      ];
      for (const path of await this.#joined(count, [...matchers, ...length], paths.length)) {
        paths.push(path);
      }
    }
    return paths;
  }

  /** @param found so many already, which the limit counts, too */
  #joined(count: number, matchers: readonly Matcher[], found = 0): Promise<readonly string[]> {
    const { storage, limits, range, work } = this.#setup;
    const { seriesMax } = limits;
    const left = { ...limits, seriesMax: seriesMax === 0 ? 0 : Math.max(1, seriesMax - found) };
    const names = Array.from({ length: count }, (_, node) => nodeTag(node));
    return this.#noted(storage.joinedValues(names, [matchers], range, left, work.signal));
  }

  #values(name: string, matchers: readonly Matcher[]): Promise<readonly string[]> {
    const { storage, limits, range, work } = this.#setup;
    return this.#noted(storage.labelValues(name, [matchers], range, limits, work.signal));
  }

  async #noted(reading: Promise<LabelResult>): Promise<readonly string[]> {
    const { values, exhaustive, warnings } = await this.#setup.work.outside(reading);
    this.isExhaustive &&= exhaustive;
    for (const warning of warnings) this.warnings.add(warning);
    return values;
  }

  #sorted(found: readonly FoundNode[], order: NodeOrder): Promise<readonly FoundNode[]> {
    const byPath = (a: FoundNode, b: FoundNode): number =>
      compareTexts(a.path, b.path) || Number(a.isLeaf) - Number(b.isLeaf);
    const byName = (a: FoundNode, b: FoundNode): number =>
      compareTexts(lastNode(a.path), lastNode(b.path)) || byPath(a, b);
    return sortPaced(found, order === 'path' ? byPath : byName, this.#setup.work);
  }
}

function isLiteral(node: NodePattern): node is NodePattern & { readonly kind: 'literal' } {
  return node.kind === 'literal';
}

function nodesOf(branches: Iterable<string>, leaves: Iterable<string>): FoundNode[] {
  const found: FoundNode[] = [];
  for (const path of branches) found.push({ path, isLeaf: false });
  for (const path of leaves) found.push({ path, isLeaf: true });
  return found;
}

/** Where nodes of a path end. */
function ends(path: string): number[] {
  const all: number[] = [];
  for (let at = path.indexOf('.'); at >= 0; at = path.indexOf('.', at + 1)) all.push(at);
  all.push(path.length);
  return all;
}
