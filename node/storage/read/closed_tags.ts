/** Tag names and values that closed filesets have beside the index (docs/INDEX.md, Closed spans). */
import { isOfWindows } from '#cluster/namespaces/samples.ts';
import type { AggregateRequest } from '#cluster/node/service.ts';
import type { Turning } from '#engine/aside/aside.ts';
import {
  type AggregatedTags,
  sortByBytes,
  sortSteps,
  type TagAggregate,
} from '../../index/query/aggregate.ts';
import { isJoinable, joinedText } from '../../index/query/joined_values.ts';
import { popCount } from '../../index/query/slot_set.ts';
import { enumerateBits } from '../../index/tables/postings.ts';
import type { Column, EntryBits } from '../../persist/series_columns/column.ts';
import { ColumnsQuery } from '../../persist/series_columns/columns_query.ts';
import { textsOfBlock } from '../../persist/series_columns/format.ts';
import type { BlockFile } from '../filesets/block_file.ts';
import { type ClosedRequest, pinClosed, visitColumns } from './asked_columns.ts';
import type { AnswerMemory } from './read.ts';

/** About what it takes to look at a value, in units of work (lib/turns/turns.ts). */
const valueUnits = 40;
/** Of a value in a set, beside its characters. */
const valueOverheadBytes = 64;

/** Entries of which values are joined in one step. */
const entriesOfStep = 256;

/** A closed fileset with entries that match. */
interface Matching {
  readonly file: BlockFile;
  readonly entries: EntryBits;
}

/**
 * Names and values of closed filesets beside those of the index, sorted by bytes. A name is asked of them as long as the limit has
 * room.
 * @param open what the index has, its first ones where it has more than the limit
 * @param reservation grows by what is collected
 */
export async function withClosedTags(
  request: ClosedRequest,
  { query, tagNames, namesOnly, joined = false, limit }: AggregateRequest,
  open: AggregatedTags,
  reservation: AnswerMemory,
  turning: Turning,
): Promise<AggregatedTags> {
  const { namespace } = request;
  if (!isOfWindows(namespace.definition)) return open;
  const pinned = pinClosed(request);
  try {
    if (pinned.length === 0) return open;
    const asked = await ColumnsQuery.of(query, turning);
    const read = new TagsRead(request, namesOnly, reservation, turning);
    const { matching, names } = await read.matching(pinned, asked);
    if (matching.length === 0) return open;
    const openValues = new Map(open.tags.map(({ name, values }) => [name, values]));
    const wanted = new Set(tagNames);
    for (const name of openValues.keys()) names.add(name);
    const joinedName = joinedText(tagNames);
    const tags: TagAggregate[] = [];
    let room = limit > 0 ? limit : Number.POSITIVE_INFINITY;
    for (const name of joined ? [joinedName] : sortByBytes([...names])) {
      if (!joined && wanted.size > 0 && !wanted.has(name)) continue;
      const others = openValues.get(name) ?? null;
      const values = joined
        ? await read.joinedValues(tagNames, matching, others)
        : await read.valuesOf(name, matching, others);
      if (values === null) continue;
      if (room === 0) return { tags, exhaustive: false };
      room -= 1;
      tags.push({ name, values: values.length > room ? values.slice(0, room) : values });
      if (values.length > room) return { tags, exhaustive: false };
      room -= values.length;
    }
    // Of what it was before all was deleted, and after that, nothing is answered.
    if (namespace.truncations !== request.truncations) return { tags: [], exhaustive: true };
    return { tags, exhaustive: open.exhaustive };
  } finally {
    for (const file of pinned) namespace.files.unpin(file);
  }
}

class TagsRead {
  readonly #request: ClosedRequest;
  readonly #namesOnly: boolean;
  readonly #reservation: AnswerMemory;
  readonly #turning: Turning;

  constructor(
    request: ClosedRequest,
    namesOnly: boolean,
    reservation: AnswerMemory,
    turning: Turning,
  ) {
    this.#request = request;
    this.#namesOnly = namesOnly;
    this.#reservation = reservation;
    this.#turning = turning;
  }

  /** Filesets with entries that match, and all names that these filesets have. */
  async matching(
    pinned: readonly BlockFile[],
    asked: ColumnsQuery,
  ): Promise<{ readonly matching: Matching[]; readonly names: Set<string> }> {
    const { files } = this.#request.namespace;
    const matching: Matching[] = [];
    const names = new Set<string>();
    for (const file of pinned) {
      this.#turning.work.signal.throwIfAborted();
      await visitColumns(files, file, async (columns) => {
        const entries = await asked.entries(columns);
        if (entries.every((word) => word === 0)) return;
        matching.push({ file, entries });
        for (const name of columns.names) names.add(name);
      });
    }
    return { matching, names };
  }

  /** Sorted; null when no entry that matches has the name, and the index neither. */
  async valuesOf(
    name: string,
    matching: readonly Matching[],
    open: readonly string[] | null,
  ): Promise<readonly string[] | null> {
    const { files } = this.#request.namespace;
    const { work } = this.#turning;
    if (this.#namesOnly && open !== null) return [];
    const values = new Set(open ?? []);
    let isThere = open !== null;
    for (const { file, entries } of matching) {
      work.signal.throwIfAborted();
      await visitColumns(files, file, async (columns) => {
        const column = await columns.column(name);
        if (column === null) return;
        const seen = column.valuesOf(entries);
        if (work.spend(column.lookedAt)) await work.pause();
        if (!seen.includes(1)) return;
        isThere = true;
        if (!this.#namesOnly) await this.#addValues(column, seen, values);
      });
      if (isThere && this.#namesOnly) return [];
    }
    return isThere ? await this.#sorted(values) : null;
  }

  /** Values of all names of an entry, joined; null when there are none. */
  async joinedValues(
    names: readonly string[],
    matching: readonly Matching[],
    open: readonly string[] | null,
  ): Promise<readonly string[] | null> {
    const { files } = this.#request.namespace;
    const values = new Set(open ?? []);
    for (const { file, entries } of matching) {
      this.#turning.work.signal.throwIfAborted();
      await visitColumns(files, file, async (all) => {
        const columns: Column[] = [];
        for (const name of names) {
          const column = await all.column(name);
          if (column === null) return;
          columns.push(column);
        }
        await this.#addJoined(columns, enumerateBits(entries, popCount(entries)), values);
      });
    }
    return values.size === 0 ? null : await this.#sorted(values);
  }

  async #addJoined(
    columns: readonly Column[],
    entries: Uint32Array,
    values: Set<string>,
  ): Promise<void> {
    const { work } = this.#turning;
    const tree = new JoinedTexts(columns);
    let bytes = 0;
    for (let i = 0; i < entries.length; i++) {
      const text = tree.newTextOf(entries[i]!);
      if (text !== null && !values.has(text)) {
        values.add(text);
        bytes += 2 * text.length + valueOverheadBytes;
      }
      if (i % entriesOfStep !== 0 && i < entries.length - 1) continue;
      if (bytes > 0) await this.#reservation.growTo(this.#reservation.bytes + bytes, work.signal);
      bytes = 0;
      if (work.spend(entriesOfStep * columns.length * valueUnits)) await work.pause();
    }
  }

  async #sorted(values: ReadonlySet<string>): Promise<readonly string[]> {
    const { work } = this.#turning;
    const steps = sortSteps([...values]);
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value;
      if (work.spend(step.value)) await work.pause();
    }
  }

  /** @param seen by number 1 for the values that are wanted */
  async #addValues(column: Column, seen: Uint8Array, values: Set<string>): Promise<void> {
    const { work } = this.#turning;
    for (let next = 1; next <= column.valueCount; ) {
      let bytes = 0;
      next = column.eachOfBlock(next, (block, start, end, number) => {
        if (seen[number] !== 1) return;
        const before = values.size;
        const { buffer, byteOffset } = block;
        values.add(Buffer.from(buffer, byteOffset + start, end - start).toString('utf8'));
        if (values.size > before) bytes += 2 * (end - start) + valueOverheadBytes;
      });
      if (bytes > 0) {
        await this.#reservation.growTo(this.#reservation.bytes + bytes, work.signal);
      }
      if (work.spend(valueUnits * textsOfBlock)) await work.pause();
    }
  }
}

/** Joined values of entries, each of them once. */
class JoinedTexts {
  readonly #columns: readonly Column[];
  /** By column, from the node before it and the number of a value to the node of both; the root is 0. */
  readonly #nodes: readonly Map<number, number>[];
  /** By node; null where a value cannot be joined. */
  readonly #texts: (string | null)[] = [''];

  constructor(columns: readonly Column[]) {
    this.#columns = columns;
    this.#nodes = columns.map(() => new Map());
  }

  /** Null where there is none, and where it was given before. */
  newTextOf(entry: number): string | null {
    let node = 0;
    let isNew = false;
    for (const [level, column] of this.#columns.entries()) {
      const number = column.numberAt(entry);
      if (number === 0) return null;
      const key = node * (column.valueCount + 1) + number;
      const known = this.#nodes[level]!.get(key);
      isNew = known === undefined;
      if (known === undefined) {
        const value = Buffer.from(column.value(number)).toString('utf8');
        const before = this.#texts[node] ?? null;
        this.#nodes[level]!.set(key, this.#texts.length);
        node = this.#texts.length;
        this.#texts.push(joinedAfter(before, value, level));
      } else node = known;
    }
    return isNew ? (this.#texts[node] ?? null) : null;
  }
}

function joinedAfter(before: string | null, value: string, level: number): string | null {
  if (before === null || !isJoinable(value)) return null;
  return level === 0 ? value : joinedText([before, value]);
}
