/**
 * Values of several tags as one text, as paths are of the tags of their nodes: `dc1.rack2` of `__g0__` and `__g1__`.
 *
 * The terms of each series are a way down a tree, of which a node is made when it is met for the first time; neighbours mostly
 * share all of it but the end. Only what is new in the tree becomes text, however many series go through it.
 */
import type { SeriesTable } from '../tables/series_table.ts';
import { noTerm, type TermDictionary } from '../tables/term_dictionary.ts';
import { type AggregatedTags, sortSteps } from './aggregate.ts';

export interface JoinedTables {
  readonly dictionary: TermDictionary;
  readonly series: SeriesTable;
}

export interface JoinedWanted {
  /** From the root down; a series has no joined value when it lacks one of them, or one of its values has a dot in it or is empty. */
  readonly tagNames: readonly string[];
  /** Name and values together, as of all tags; 0 = no limit. */
  readonly limit: number;
}

/** What stands between two values. */
const joint = '.';

const jointByte = 0x2e;

/** Whether joined texts tell where a value of them ends. */
export function isJoinable(value: string): boolean {
  return value !== '' && !value.includes(joint);
}

function isJoinableBytes(bytes: Uint8Array, start: number, end: number): boolean {
  for (let i = start; i < end; i++) if (bytes[i] === jointByte) return false;
  return end > start;
}

export function joinedText(values: readonly string[]): string {
  return values.join(joint);
}

/** Series that are looked at in one step, and what a term of one takes in units of work (lib/turns/turns.ts). */
const seriesOfStep = 1024;
const termUnits = 15;
/** Texts that are made in one step, and what one takes. */
const textsOfStep = 1024;
const textUnits = 150;
/** About what it takes to put a node in its place. */
const orderUnits = 20;

/**
 * Yields units of work that were done.
 * @param slots those without terms are left out: they were removed meanwhile
 * @returns one tag, whose name is all names joined, with its values sorted by bytes; none without values
 */
export function* joinedValueSteps(
  slots: Uint32Array,
  { dictionary, series }: JoinedTables,
  { tagNames, limit }: JoinedWanted,
): Generator<number, AggregatedTags> {
  const fields = tagNames.map((name) => dictionary.fieldIndex(name));
  if (fields.length === 0 || fields.includes(-1)) return { tags: [], exhaustive: true };
  const tree = new TermTree(fields.length);
  const room = limit > 0 ? limit - 1 : Number.POSITIVE_INFINITY;
  const walk = new SeriesWalk(Uint32Array.from(fields), dictionary, series, tree);
  for (let i = 0; i < slots.length && tree.leafCount <= room; i++) {
    walk.add(slots[i]!);
    if (i % seriesOfStep === seriesOfStep - 1) yield seriesOfStep * fields.length * termUnits;
  }
  const values = yield* sortedTexts(tree, dictionary);
  if (values.length === 0) return { tags: [], exhaustive: true };
  const exhaustive = values.length <= room;
  if (!exhaustive) values.length = room;
  return { tags: [{ name: joinedText(tagNames), values }], exhaustive };
}

/** Takes series down the tree. */
class SeriesWalk {
  readonly #fields: Uint32Array;
  readonly #dictionary: TermDictionary;
  readonly #series: SeriesTable;
  readonly #tree: TermTree;
  /** By level where the term of that field stood last, the term, and the node that it led to. */
  readonly #places: Uint32Array;
  readonly #terms: Uint32Array;
  readonly #nodes: Uint32Array;

  constructor(
    fields: Uint32Array,
    dictionary: TermDictionary,
    series: SeriesTable,
    tree: TermTree,
  ) {
    this.#fields = fields;
    this.#dictionary = dictionary;
    this.#series = series;
    this.#tree = tree;
    this.#places = new Uint32Array(fields.length);
    this.#terms = new Uint32Array(fields.length).fill(noTerm);
    this.#nodes = new Uint32Array(fields.length);
  }

  add(slot: number): void {
    const termCount = this.#series.termCount(slot);
    const levels = this.#fields.length;
    if (termCount === 0) return;
    const page = this.#series.termsPage(slot);
    const start = this.#series.termsStart(slot);
    let isAsBefore = true;
    let node = 0;
    for (let level = 0; level < levels; level++) {
      const term = this.#termOf(level, page, start, termCount);
      // Nodes of the levels before it are in no text, and are few.
      if (term === noTerm) return;
      if (isAsBefore && this.#terms[level] === term) {
        node = this.#nodes[level]!;
        continue;
      }
      if (isAsBefore) this.#terms.fill(noTerm, level);
      isAsBefore = false;
      const parent = node;
      node = this.#tree.find(parent, term);
      if (node === 0) {
        if (!this.#dictionary.testValue(term, isJoinableBytes)) return;
        node = this.#tree.add(parent, term, level);
      }
      this.#terms[level] = term;
      this.#nodes[level] = node;
    }
  }

  #termOf(level: number, page: Uint32Array, start: number, termCount: number): number {
    const field = this.#fields[level]!;
    const place = this.#places[level]!;
    if (place < termCount) {
      const term = page[start + place]!;
      if (this.#dictionary.fieldOfTerm(term) === field) return term;
    }
    for (let i = 0; i < termCount; i++) {
      const term = page[start + i]!;
      if (this.#dictionary.fieldOfTerm(term) !== field) continue;
      this.#places[level] = i;
      return term;
    }
    return noTerm;
  }
}

/** Nodes by level, and a hash table from a node and a term to the node below; the root is 0. */
class TermTree {
  /** By level the nodes that it has, in the order in which they were made. */
  readonly levels: NodeList[];
  #terms: Uint32Array = new Uint32Array(256);
  #parents: Uint32Array = new Uint32Array(256);
  /** Nodes; 0 for none. */
  #buckets: Uint32Array = new Uint32Array(512);
  #nodesEnd = 1;

  constructor(levelCount: number) {
    this.levels = Array.from({ length: levelCount }, () => new NodeList());
  }

  get nodesEnd(): number {
    return this.#nodesEnd;
  }

  get leafCount(): number {
    return this.levels.at(-1)!.length;
  }

  termOf(node: number): number {
    return this.#terms[node]!;
  }

  parentOf(node: number): number {
    return this.#parents[node]!;
  }

  /** The node below a node; 0 when it is not there. */
  find(parent: number, term: number): number {
    const mask = this.#buckets.length - 1;
    for (let bucket = hashOf(parent, term) & mask; ; bucket = (bucket + 1) & mask) {
      const node = this.#buckets[bucket]!;
      if (node === 0) return 0;
      if (this.#terms[node] === term && this.#parents[node] === parent) return node;
    }
  }

  /** Of one that is not there. */
  add(parent: number, term: number, level: number): number {
    const node = this.#nodesEnd++;
    if (node === this.#terms.length) {
      this.#terms = grown(this.#terms);
      this.#parents = grown(this.#parents);
    }
    this.#terms[node] = term;
    this.#parents[node] = parent;
    this.levels[level]!.push(node);
    if (2 * this.#nodesEnd > this.#buckets.length) this.#growBuckets();
    else this.#place(this.#buckets, node);
    return node;
  }

  #growBuckets(): void {
    const buckets = new Uint32Array(2 * this.#buckets.length);
    for (let node = 1; node < this.#nodesEnd; node++) this.#place(buckets, node);
    this.#buckets = buckets;
  }

  #place(buckets: Uint32Array, node: number): void {
    const mask = buckets.length - 1;
    let bucket = hashOf(this.#parents[node]!, this.#terms[node]!) & mask;
    while (buckets[bucket] !== 0) bucket = (bucket + 1) & mask;
    buckets[bucket] = node;
  }
}

class NodeList {
  #nodes: Uint32Array = new Uint32Array(64);
  length = 0;

  push(node: number): void {
    if (this.length === this.#nodes.length) this.#nodes = grown(this.#nodes);
    this.#nodes[this.length++] = node;
  }

  get nodes(): Uint32Array {
    return this.#nodes.subarray(0, this.length);
  }
}

function grown(words: Uint32Array): Uint32Array {
  const more = new Uint32Array(2 * words.length);
  more.set(words);
  return more;
}

/** Both are dense numbers that rise together: without the steps in between, sums of them would fall together. */
function hashOf(parent: number, term: number): number {
  let hash = Math.imul(term, 0x85ebca6b);
  hash = Math.imul((hash ^ (hash >>> 13)) + parent, 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}

/**
 * Texts of the leaves, sorted by bytes, though only terms are compared as texts: of each level they are sorted, and nodes
 * are ordered by their parents' order, then by that of their terms.
 */
function* sortedTexts(tree: TermTree, dictionary: TermDictionary): Generator<number, string[]> {
  const last = tree.levels.length - 1;
  let texts: string[] = [''];
  /** By node the place among those of its level. */
  const placeOf = new Uint32Array(tree.nodesEnd);
  for (const [level, { nodes }] of tree.levels.entries()) {
    const { values, rankOf } = yield* rankedTerms(nodes, tree, dictionary, level < last);
    const rank = (node: number): number => rankOf.get(tree.termOf(node))!;
    const parentPlace = (node: number): number => placeOf[tree.parentOf(node)]!;
    const order = ordered(ordered(nodes, values.length, rank), texts.length, parentPlace);
    yield nodes.length * orderUnits;
    const own: string[] = [];
    for (let place = 0; place < order.length; place++) {
      const node = order[place]!;
      placeOf[node] = place;
      own.push(texts[parentPlace(node)]! + values[rank(node)]!);
      if (place % textsOfStep === textsOfStep - 1) yield textsOfStep * textUnits;
    }
    texts = own;
  }
  return texts;
}

/**
 * Terms of the nodes by the order of their texts.
 * @param goesOn the joint is behind each text: it is what others are compared with, as `a-b.c` is before `a.c`
 */
function* rankedTerms(
  nodes: Uint32Array,
  tree: TermTree,
  dictionary: TermDictionary,
  goesOn: boolean,
): Generator<number, { readonly values: string[]; readonly rankOf: Map<number, number> }> {
  const termOfText = new Map<string, number>();
  const seen = new Set<number>();
  for (let i = 0; i < nodes.length; i++) {
    const term = tree.termOf(nodes[i]!);
    if (!seen.has(term)) {
      seen.add(term);
      const value = dictionary.value(term);
      termOfText.set(goesOn ? value + joint : value, term);
    }
    if (i % textsOfStep === textsOfStep - 1) yield textsOfStep * textUnits;
  }
  const values = yield* sortSteps([...termOfText.keys()]);
  return { values, rankOf: new Map(values.map((text, rank) => [termOfText.get(text)!, rank])) };
}

/** Nodes by ascending keys below `keysEnd`; equal ones stay as they are. */
function ordered(
  nodes: Uint32Array,
  keysEnd: number,
  keyOf: (node: number) => number,
): Uint32Array {
  const starts = new Uint32Array(keysEnd + 1);
  for (let i = 0; i < nodes.length; i++) starts[keyOf(nodes[i]!) + 1]! += 1;
  for (let key = 0; key < keysEnd; key++) starts[key + 1]! += starts[key]!;
  const sorted = new Uint32Array(nodes.length);
  for (let i = 0; i < nodes.length; i++) {
    const node = nodes[i]!;
    const key = keyOf(node);
    sorted[starts[key]!] = node;
    starts[key]! += 1;
  }
  return sorted;
}
