/** Index queries over the series of closed filesets: the same questions as those of the index in memory, entry by entry. */
import type { Turning } from '#engine/aside/aside.ts';
import { learnRegexps } from '#engine/aside/regexps.ts';
import { assert } from '#lib/assert.ts';
import { checkQuerySize, type IndexQuery } from '#lib/index_query.ts';
import { type AnchoredRegexp, isDear } from '#lib/regexp/regexp.ts';
import { NeedsRegexps, QueryRegexps } from '#lib/regexp/regexps.ts';
import { addAll, type Column, type EntryBits, noneOf } from './column.ts';
import type { SeriesColumns } from './series_columns.ts';

/** About what it takes in units of work (lib/turns/turns.ts): an entry of a column, a value that is tested, one that is looked up. */
const entryUnits = 1;
const testUnits = 40;
const lookUpUnits = 400;
/** Texts that are tested aside at a time, and their characters. */
const asideTextsMax = 1_024;
const asideCharactersMax = 1_000_000;
/** Of a list of literals each is looked up where it has fewer than a column has values by this. */
const lookUpShare = 8;

export class ColumnsQuery {
  readonly #query: IndexQuery;
  readonly #regexps: QueryRegexps;
  readonly #turning: Turning;

  private constructor(query: IndexQuery, regexps: QueryRegexps, turning: Turning) {
    this.#query = query;
    this.#regexps = regexps;
    this.#turning = turning;
  }

  /** @throws {TsdbError} BAD_REQUEST for a bad regexp or a query that is too large; the reason of the work's signal */
  static async of(query: IndexQuery, turning: Turning): Promise<ColumnsQuery> {
    checkQuerySize(query);
    const regexps = new QueryRegexps();
    for (;;) {
      try {
        findAll(query, regexps);
        regexps.checkFound();
        return new ColumnsQuery(query, regexps, turning);
      } catch (error) {
        if (!(error instanceof NeedsRegexps)) throw error;
        await learnRegexps(regexps, turning);
      }
    }
  }

  /**
   * @returns by entry a bit: whether it matches
   * @throws {SeriesColumnsCorrupt}; the reason of the work's signal; what the source of the columns rejects with
   */
  entries(columns: SeriesColumns): Promise<EntryBits> {
    return this.#entries(this.#query, columns);
  }

  async #entries(query: IndexQuery, columns: SeriesColumns): Promise<EntryBits> {
    const { entryCount } = columns;
    switch (query.kind) {
      case 'all':
        return allOf(entryCount);
      case 'field':
        return this.#having(await columns.column(query.field), entryCount);
      case 'term': {
        const column = await columns.column(query.field);
        const found = noneOf(entryCount);
        const number = column === null ? 0 : column.numberOf(Buffer.from(query.term, 'utf8'));
        if (number > 0) column!.addEqual(number, found);
        await this.#spend(lookUpUnits + entryUnits * (column?.lookedAt ?? 0));
        return found;
      }
      case 'regexp':
        return this.#matching(query.field, this.#regexps.compile(query.regexp), columns);
      case 'conjunction':
        return this.#conjunction(query.queries, columns);
      case 'disjunction': {
        const found = noneOf(entryCount);
        for (const part of query.queries) {
          const some = await this.#entries(part, columns);
          for (let i = 0; i < found.length; i++) found[i]! |= some[i]!;
        }
        return found;
      }
      case 'negation': {
        const found = allOf(entryCount);
        const without = await this.#entries(query.query, columns);
        for (let i = 0; i < found.length; i++) found[i]! &= ~without[i]!;
        return found;
      }
      default:
        return query satisfies never;
    }
  }

  /** The cheap parts first: what follows need not be asked where nothing is left. */
  async #conjunction(parts: readonly IndexQuery[], columns: SeriesColumns): Promise<EntryBits> {
    if (parts.length === 0) return noneOf(columns.entryCount);
    const found = allOf(columns.entryCount);
    for (const part of parts.toSorted((a, b) => dearness(a) - dearness(b))) {
      const some = await this.#entries(part, columns);
      let any = 0;
      for (let i = 0; i < found.length; i++) any |= found[i]! &= some[i]!;
      if (any === 0) break;
    }
    return found;
  }

  async #having(column: Column | null, entryCount: number): Promise<EntryBits> {
    const found = noneOf(entryCount);
    column?.addHaving(found);
    await this.#spend(entryUnits * (column?.lookedAt ?? 0));
    return found;
  }

  async #matching(
    field: string,
    regexp: AnchoredRegexp,
    columns: SeriesColumns,
  ): Promise<EntryBits> {
    const column = await columns.column(field);
    const { entryCount } = columns;
    if (column === null) return noneOf(entryCount);
    if (regexp.matches === 'everything') return this.#having(column, entryCount);
    const matches = await this.#matchesOf(column, regexp);
    const found = noneOf(entryCount);
    column.addMatching(matches, found);
    await this.#spend(entryUnits * column.lookedAt);
    return found;
  }

  /** By number 1 where the value matches. */
  async #matchesOf(column: Column, regexp: AnchoredRegexp): Promise<Uint8Array> {
    const { pattern, set } = regexp;
    if (set !== null && set.size * lookUpShare < column.valueCount) {
      const matches = new Uint8Array(column.valueCount + 1);
      for (const text of set) {
        matches[column.numberOf(Buffer.from(text, 'utf8'))] = 1;
        await this.#spend(lookUpUnits);
      }
      matches[0] = 0;
      return matches;
    }
    const known = column.matchesOf(pattern);
    if (known !== null) return known;
    const matches = await this.#tested(column, regexp);
    column.keepMatches(pattern, matches);
    return matches;
  }

  async #tested(column: Column, regexp: AnchoredRegexp): Promise<Uint8Array> {
    const matches = new Uint8Array(column.valueCount + 1);
    const aside: { readonly number: number; readonly text: string }[] = [];
    let characters = 0;
    for (let next = 1; next <= column.valueCount; ) {
      let units = 0;
      next = column.eachOfBlock(next, (bytes, start, end, number) => {
        if (isDear(regexp, end - start)) {
          const text = Buffer.from(bytes.subarray(start, end)).toString('utf8');
          aside.push({ number, text });
          characters += text.length;
        } else {
          matches[number] = regexp.testBytes(bytes, start, end) ? 1 : 0;
          units += testUnits + regexp.units(end - start);
        }
      });
      await this.#spend(units);
      const isLast = next > column.valueCount;
      if (aside.length < asideTextsMax && characters < asideCharactersMax && !isLast) continue;
      await this.#testAside(regexp, aside.splice(0), matches);
      characters = 0;
    }
    return matches;
  }

  async #testAside(
    { pattern }: AnchoredRegexp,
    asked: readonly { readonly number: number; readonly text: string }[],
    matches: Uint8Array,
  ): Promise<void> {
    if (asked.length === 0) return;
    const { work, aside } = this.#turning;
    const texts = asked.map(({ text }) => text);
    const outcomes = await work.outside(aside.run({ kind: 'regexp', pattern, texts }, work));
    assert(outcomes.length === asked.length, 'each text has an outcome');
    for (const [i, { number }] of asked.entries()) matches[number] = outcomes[i]!;
  }

  async #spend(units: number): Promise<void> {
    const { work } = this.#turning;
    if (work.spend(units)) await work.pause();
  }
}

function findAll(query: IndexQuery, regexps: QueryRegexps): void {
  if (query.kind === 'regexp') regexps.find(query.regexp);
  else if (query.kind === 'negation') findAll(query.query, regexps);
  else if (query.kind === 'conjunction' || query.kind === 'disjunction') {
    for (const part of query.queries) findAll(part, regexps);
  }
}

function dearness({ kind }: IndexQuery): number {
  return ['term', 'all', 'field', 'negation', 'conjunction', 'disjunction', 'regexp'].indexOf(kind);
}

function allOf(entryCount: number): EntryBits {
  const all = noneOf(entryCount);
  addAll(all, entryCount);
  return all;
}
