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
  { query, tagNames, namesOnly, limit }: AggregateRequest,
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
    const tags: TagAggregate[] = [];
    let room = limit > 0 ? limit : Number.POSITIVE_INFINITY;
    for (const name of sortByBytes([...names])) {
      if (wanted.size > 0 && !wanted.has(name)) continue;
      const values = await read.valuesOf(name, matching, openValues.get(name) ?? null);
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
    if (!isThere) return null;
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
