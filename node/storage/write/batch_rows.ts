/**
 * The rows of one kind in a batch, floats or typed ones, on their way into the store: checked, those
 * that are taken picked out, and applied.
 */
import { rowOutcome } from '#cluster/node/service.ts';
import { appendRows, type SampleStore } from '#engine/store/sample_store.ts';
import { pickRows, type RowsOfKind } from '#engine/store/rows.ts';
import { assert } from '#lib/assert.ts';
import type { NamespaceState } from '../namespace/namespace.ts';

/** What rows of all kinds have. */
export type RowColumns = Pick<
  RowsOfKind['rows'],
  'rowCount' | 'slots' | 'generations' | 'timestamps' | 'timeUnitNanos'
>;

/** Oldest and newest row, in Unix nanoseconds. */
export interface TimeSpan {
  readonly firstNanos: bigint;
  readonly lastNanos: bigint;
}

/** Rows whose outcomes lie in those of the batch from a place on. */
export class BatchRows {
  /** Of the batch; dictionary ordinals become references in place. */
  readonly columns: RowColumns;
  readonly #outcomeFirst: number;
  #taken: RowsOfKind;
  #span: TimeSpan | null = null;

  constructor(of: RowsOfKind, outcomeFirst: number) {
    this.columns = of.rows;
    this.#outcomeFirst = outcomeFirst;
    this.#taken = of;
  }

  /** All rows until `keepTaken` has left out those that are refused. */
  get taken(): RowsOfKind {
    return this.#taken;
  }

  /** @param outcomes of the batch */
  outcomesOf(outcomes: Uint8Array): Uint8Array {
    const first = this.#outcomeFirst;
    return outcomes.subarray(first, first + this.columns.rowCount);
  }

  /** The rules of the store. @returns how many rows have an outcome other than 0 */
  check(store: SampleStore, ordinal: number, nowNanos: bigint, outcomes: Uint8Array): number {
    const { kind, rows } = this.#taken;
    const own = this.outcomesOf(outcomes);
    return kind === 'float'
      ? store.check(rows, ordinal, nowNanos, own)
      : store.checkTyped(rows, ordinal, nowNanos, own);
  }

  /** Leaves out the rows whose outcome is not 0. */
  keepTaken(outcomes: Uint8Array): void {
    const own = this.outcomesOf(outcomes);
    const places = new Uint32Array(own.length);
    let count = 0;
    for (let row = 0; row < own.length; row += 1) {
      if (own[row] === rowOutcome.written) places[count++] = row;
    }
    if (count < own.length) this.#taken = pickRows(this.#taken, places.subarray(0, count));
  }

  /** Applies what is taken, in steps. @returns how many rows were superseded, whose outcomes say so */
  append(
    store: SampleStore,
    version: number,
    takenOutcomes: Uint8Array,
    derivesVersions: boolean,
  ): Generator<void, number> {
    return appendRows(store, this.#taken, version, takenOutcomes, derivesVersions);
  }

  /** Of what is taken, at least one row. */
  get span(): TimeSpan {
    return (this.#span ??= spanOf(this.#taken.rows));
  }
}

/** Oldest and newest row; equal neighbours, the usual case, are passed by their words. */
export function spanOf({ timestamps, rowCount, timeUnitNanos }: RowColumns): TimeSpan {
  assert(rowCount > 0, 'there is a row');
  const words = new Uint32Array(timestamps.buffer, timestamps.byteOffset, 2 * rowCount);
  let first = timestamps[0]!;
  let last = first;
  for (let row = 1; row < rowCount; row += 1) {
    const at = 2 * row;
    if (words[at] === words[at - 2] && words[at + 1] === words[at - 1]) continue;
    const time = timestamps[row]!;
    if (time < first) first = time;
    if (time > last) last = time;
  }
  const unit = BigInt(timeUnitNanos);
  return { firstNanos: first * unit, lastNanos: last * unit };
}

/** Notes in the index which blocks the rows lie in. */
export function markRowsLive(namespace: NamespaceState, rows: RowColumns, span: TimeSpan): void {
  const firstBlock = namespace.blockStartOf(span.firstNanos);
  const lastBlock = namespace.blockStartOf(span.lastNanos);
  if (firstBlock === lastBlock) {
    namespace.index.markLive(rows.slots.subarray(0, rows.rowCount), firstBlock);
    return;
  }
  const unit = BigInt(rows.timeUnitNanos);
  const slotsOfBlock = new Map<bigint, number[]>();
  for (let row = 0; row < rows.rowCount; row += 1) {
    const block = namespace.blockStartOf(rows.timestamps[row]! * unit);
    const slots = slotsOfBlock.get(block);
    if (slots === undefined) slotsOfBlock.set(block, [rows.slots[row]!]);
    else slots.push(rows.slots[row]!);
  }
  for (const [block, slots] of slotsOfBlock) {
    namespace.index.markLive(slots, block);
  }
}
