/**
 * The picture of imports: which file imports which, as boxes and arrows, and where arrows go in
 * circles. A type-only import is an arrow like any other: who changes the type meets both files.
 *
 *     node test/import_graph.ts [FOLDER]             a table by folder, of this tree or of another checkout
 *     node test/import_graph.ts --files PREFIX       the imports of the files whose path begins so
 */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** From each box to the boxes that it imports, with the number of imports. */
export type ImportGraph = ReadonlyMap<string, ReadonlyMap<string, number>>;

export interface SourceFile {
  /** From the root, with slashes. */
  readonly path: string;
  readonly text: string;
}

export const rooms: readonly string[] = [
  'lib',
  'engine',
  'cluster',
  'kv',
  'node',
  'coordinator',
  'aggregator',
  'operator',
  'tsdbctl',
];

/** Tests and what only tests and benchmarks import, by the end of their names. */
export const isTest = (path: string): boolean =>
  /_(test|testing|fakes|fuzz|bench|twin)\.ts$/.test(path);

/** Where rooms are joined; nobody imports these. */
export const isMain = (path: string): boolean => path.endsWith('/main.ts');

/** All TypeScript of the rooms, tests too, sorted by path. */
export function sourceFiles(root: string): SourceFile[] {
  return globSync(`{${rooms.join(',')}}/**/*.ts`, { cwd: root, exclude: ['engine/build/**'] })
    .map((path) => path.replaceAll('\\', '/'))
    .sort()
    .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));
}

/** What a text imports, statically or not, and the modules of its workers, as they are written. */
export function specifiersOf(text: string): string[] {
  return [...text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*'([^']+)'/g)].map((match) => match[1]!);
}

/** Where what a file imports lies, from the root, as it is written: kernels write no `.ts`; null when it is a package. */
export function targetOf(path: string, specifier: string): string | null {
  if (specifier.startsWith('#')) return specifier.slice(1);
  return specifier.startsWith('.') ? join(dirname(path), specifier) : null;
}

/** The imports between the given files; what lies elsewhere is left out. */
export function importGraph(files: readonly SourceFile[]): ImportGraph {
  const paths = new Set(files.map(({ path }) => path));
  const graph = new Map<string, Map<string, number>>();
  for (const { path, text } of files) {
    const imported = new Map<string, number>();
    for (const specifier of specifiersOf(text)) {
      let target = targetOf(path, specifier);
      if (target === null) continue;
      if (!paths.has(target)) target += '.ts';
      if (paths.has(target)) imported.set(target, (imported.get(target) ?? 0) + 1);
    }
    graph.set(path, imported);
  }
  return graph;
}

/** The same with folders as boxes: the files that lie directly in one. */
export function folderGraph(files: ImportGraph): ImportGraph {
  const graph = new Map<string, Map<string, number>>();
  for (const path of files.keys()) graph.set(dirname(path), new Map());
  for (const [path, imported] of files) {
    const arrows = graph.get(dirname(path))!;
    for (const target of imported.keys()) {
      const folder = dirname(target);
      if (folder !== dirname(path)) arrows.set(folder, (arrows.get(folder) ?? 0) + 1);
    }
  }
  return graph;
}

/**
 * Groups of boxes that reach each other, sorted, the largest first: what Tarjan's algorithm calls
 * the strongly connected components of more than one box.
 */
export function circlesOf(graph: ImportGraph): string[][] {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const path: string[] = [];
  const onPath = new Set<string>();
  const circles: string[][] = [];
  const visit = (box: string): void => {
    order.set(box, order.size);
    let low = order.get(box)!;
    path.push(box);
    onPath.add(box);
    for (const next of graph.get(box)?.keys() ?? []) {
      if (!order.has(next)) visit(next);
      if (onPath.has(next)) low = Math.min(low, lowest.get(next) ?? order.get(next)!);
    }
    lowest.set(box, low);
    if (low !== order.get(box)) return;
    const circle = path.splice(path.indexOf(box));
    for (const each of circle) onPath.delete(each);
    if (circle.length > 1) circles.push(circle.sort());
  };
  for (const box of graph.keys()) if (!order.has(box)) visit(box);
  return circles.sort((left, right) => right.length - left.length);
}

/** The shortest way round a circle, for a message that can be acted on: `a → b → a`. */
export function wayRound(graph: ImportGraph, circle: readonly string[]): string {
  const inside = new Set(circle);
  let best: string[] = [];
  for (const start of circle) {
    const from = new Map<string, string>();
    const queue = [start];
    for (let at = 0; at < queue.length; at++) {
      const box = queue[at]!;
      if (graph.get(box)!.has(start)) {
        const way = [start];
        for (let back = box; back !== start; back = from.get(back)!) way.splice(1, 0, back);
        if (best.length === 0 || way.length < best.length) best = way;
        break;
      }
      for (const next of graph.get(box)!.keys()) {
        if (!inside.has(next) || next === start || from.has(next)) continue;
        from.set(next, box);
        queue.push(next);
      }
    }
  }
  return [...best, best[0]].join(' → ');
}

const linesOf = (files: readonly SourceFile[]): number =>
  files.reduce((sum, { text }) => sum + text.split('\n').length - 1, 0);

function printTable(root: string): void {
  const all = sourceFiles(root);
  const product = all.filter(({ path }) => !isTest(path) && !isMain(path));
  const files = importGraph(product);
  const folders = folderGraph(files);
  console.log('| folder | files | lines | lines of tests | imports of | imported by |');
  console.log('| --- | --- | --- | --- | --- | --- |');
  const names = [...new Set(all.map(({ path }) => dirname(path)))].sort();
  for (const folder of names) {
    const inside = all.filter(({ path }) => dirname(path) === folder);
    const tests = inside.filter(({ path }) => isTest(path));
    const rest = inside.filter(({ path }) => !isTest(path));
    const out = folders.get(folder)?.size ?? 0;
    const into = [...folders.values()].filter((arrows) => arrows.has(folder)).length;
    const cells = [folder, rest.length, linesOf(rest), linesOf(tests), out, into];
    console.log(`| ${cells.join(' | ')} |`);
  }
  const arrowsOf = (graph: ImportGraph): number =>
    [...graph.values()].reduce((sum, arrows) => sum + arrows.size, 0);
  console.log();
  for (const [what, graph] of [
    ['files', files],
    ['folders', folders],
  ] as const) {
    const circles = circlesOf(graph);
    const inCircles = circles.reduce((sum, circle) => sum + circle.length, 0);
    console.log(
      `${what}: ${graph.size} boxes, ${arrowsOf(graph)} arrows, ${circles.length} circles of ${inCircles} boxes`,
    );
    for (const circle of circles) console.log(`  circle of ${circle.length}: ${circle.join(', ')}`);
  }
  const tests = all.filter(({ path }) => isTest(path));
  console.log(`lines: product ${linesOf(all) - linesOf(tests)}, tests beside it ${linesOf(tests)}`);
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [first, second] = process.argv.slice(2);
  const root = join(import.meta.dirname, '..');
  if (first === '--files') {
    const product = sourceFiles(root).filter(({ path }) => !isTest(path));
    for (const [path, imported] of importGraph(product)) {
      if (path.startsWith(second ?? ''))
        console.log(`${path} → ${[...imported.keys()].join(', ')}`);
    }
  } else printTable(first ?? root);
}
