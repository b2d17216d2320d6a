/**
 * Counts the acknowledgements of one attempt to write rows: pure, told of each instance's answer,
 * asked which rows are decided. As long as every instance wrote all its rows it counts by class of
 * shards; only when an answer differs by row does it count by row.
 */
import { rowOutcome } from '../../node/service.ts';
import type { Ownership, ShardClass } from '../../topology/ownership.ts';
import { writeOutcome } from './write_result.ts';

/** Rows of one instance, as positions in the write; null for all of the attempt. */
export type TargetRows = Uint32Array | null;

export interface WriteTarget {
  readonly instanceIndex: number;
  readonly rows: TargetRows;
  readonly rowCount: number;
}

/** The rows of an attempt. */
export interface CountedRows {
  /** Rows of the write, of which those in `picked` take part. */
  readonly rowCount: number;
  readonly picked: TargetRows;
  /** By row. */
  readonly slots: Uint32Array;
  /** By slot; read in the constructor only. */
  readonly idHash: Uint32Array;
  /**
   * What `acknowledged()` of an attempt before, under the same placement, gave: who has a row is not
   * asked again. Taken over.
   */
  readonly acknowledged?: Uint16Array;
}

/** Rows that the attempt did not write. */
export interface Unwritten {
  /** Positions in the write, ascending. */
  readonly rows: Uint32Array;
  /** `writeOutcome` of each: final, or retryable. */
  readonly outcomes: Uint8Array;
}

interface RowMasks {
  readonly acknowledged: Uint16Array;
  /** Refused for good. */
  readonly refused: Uint16Array;
  /** Not written for a passing reason. */
  readonly failed: Uint16Array;
  /** 1: an instance has another value in the place of the row. */
  readonly superseded: Uint8Array;
  /** The last outcome that was not written. */
  readonly outcome: Uint8Array;
}

export class Acknowledgements {
  readonly targets: readonly WriteTarget[];
  readonly #ownership: Ownership;
  readonly #required: number;
  readonly #rowCount: number;
  readonly #picked: TargetRows;
  /** Class by row; null when there is only one class. */
  readonly #classOfRow: Uint32Array | null;
  readonly #present: readonly number[];
  readonly #acknowledged: Uint16Array;
  readonly #failed: Uint16Array;
  readonly #refused: Uint16Array;
  #masks: RowMasks | null = null;
  #exhausted = false;
  #clockAhead = false;
  /** An instance has another value in the place of a row. */
  hasSuperseded = false;

  /** @param required replicas that must acknowledge each row */
  constructor(ownership: Ownership, required: number, rows: CountedRows) {
    const { rowCount, picked } = rows;
    this.#ownership = ownership;
    this.#required = required;
    this.#rowCount = rowCount;
    this.#picked = picked;
    const classCount = ownership.classes.length;
    this.#acknowledged = new Uint16Array(classCount);
    this.#failed = new Uint16Array(classCount);
    this.#refused = new Uint16Array(classCount);
    const { acknowledged } = rows;
    if (acknowledged !== undefined) this.#masks = emptyMasks(rowCount, acknowledged);
    if (classCount === 1) {
      this.#classOfRow = null;
      this.#present = [0];
      const all = ownership.classes[0]!.members.map((instanceIndex) => ({
        instanceIndex,
        rows: picked,
        rowCount: picked?.length ?? rowCount,
      }));
      this.targets = this.#withoutAcknowledged(all);
      return;
    }
    this.#classOfRow = new Uint32Array(rowCount);
    const rowsOfClass = classifyRows(rows, ownership, this.#classOfRow);
    const present: number[] = [];
    for (const [at, count] of rowsOfClass.entries()) if (count > 0) present.push(at);
    this.#present = present;
    this.targets = this.#withoutAcknowledged(this.#splitRows(rowsOfClass));
  }

  /** By row, the members of its class that have written it. A copy. */
  acknowledged(): Uint16Array {
    const acknowledged = new Uint16Array(this.#rowCount);
    if (this.#masks !== null) acknowledged.set(this.#masks.acknowledged);
    this.#eachRow((row) => {
      acknowledged[row]! |= this.#acknowledged[this.#classOf(row)]!;
    });
    return acknowledged;
  }

  /** The instance wrote all its rows. */
  wrote(target: WriteTarget): void {
    this.#mark(this.#acknowledged, target);
  }

  /** The instance's whole request failed; `outcome` is retryable, or `badRequest`. */
  failedWhole(target: WriteTarget, outcome: number): void {
    if (outcome === writeOutcome.resourceExhausted) this.#exhausted = true;
    if (outcome === writeOutcome.clockAhead) this.#clockAhead = true;
    this.#mark(outcome === writeOutcome.badRequest ? this.#refused : this.#failed, target);
  }

  /** @param outcomes a `rowOutcome` for each row of the target */
  answered(target: WriteTarget, outcomes: Uint8Array): void {
    this.#masks ??= emptyMasks(this.#rowCount, new Uint16Array(this.#rowCount));
    const { acknowledged, refused, failed, superseded, outcome } = this.#masks;
    const bitOfClass = this.#bitsOf(target.instanceIndex);
    for (let i = 0; i < target.rowCount; i++) {
      const row = target.rows === null ? i : target.rows[i]!;
      const bit = bitOfClass[this.#classOf(row)]!;
      const code = outcomes[i]!;
      if (code === rowOutcome.written) {
        acknowledged[row]! |= bit;
        continue;
      }
      if (isFinal(code)) {
        refused[row]! |= bit;
        outcome[row] = code;
      } else {
        if (code === rowOutcome.superseded) {
          superseded[row] = 1;
          this.hasSuperseded = true;
        }
        failed[row]! |= bit;
        if (outcome[row] === 0) outcome[row] = code;
      }
    }
  }

  /** Whether no answer that is still out can change anything. */
  isDecided(): boolean {
    if (this.#masks === null) {
      return this.#present.every((at) => this.#verdict(at, 0, 0, 0) !== undecided);
    }
    let decided = true;
    this.#eachRow((row) => {
      decided &&= this.#verdictOfRow(row) !== undecided;
    });
    return decided;
  }

  /** Rows that were not written, once decided; null when all were. */
  unwritten(): Unwritten | null {
    if (
      this.#masks === null &&
      this.#present.every((at) => this.#verdict(at, 0, 0, 0) === written)
    ) {
      return null;
    }
    const rows: number[] = [];
    const outcomes: number[] = [];
    this.#eachRow((row) => {
      const verdict = this.#verdictOfRow(row);
      if (verdict === written) return;
      rows.push(row);
      outcomes.push(this.#outcomeOf(row, verdict));
    });
    return rows.length === 0
      ? null
      : { rows: Uint32Array.from(rows), outcomes: Uint8Array.from(outcomes) };
  }

  #outcomeOf(row: number, verdict: Verdict): number {
    const code = this.#masks?.outcome[row] ?? 0;
    if (verdict === refusedForGood) return isFinal(code) ? code : writeOutcome.badRequest;
    // Whoever waits for anything else waits in vain as long as the clock is wrong.
    if (this.#clockAhead) return writeOutcome.clockAhead;
    const isExhausted = this.#exhausted || code === rowOutcome.resourceExhausted;
    return isExhausted ? writeOutcome.resourceExhausted : writeOutcome.unavailable;
  }

  #verdictOfRow(row: number): Verdict {
    const at = this.#classOf(row);
    const masks = this.#masks;
    if (masks === null) return this.#verdict(at, 0, 0, 0);
    // Whoever has taken the row as it is: all get it as what comes after that value.
    if (masks.superseded[row] === 1) return failedForNow;
    return this.#verdict(at, masks.acknowledged[row]!, masks.refused[row]!, masks.failed[row]!);
  }

  #verdict(at: number, acknowledged: number, refused: number, failed: number): Verdict {
    const ofClass = this.#ownership.classes[at]!;
    const acks = this.#acknowledged[at]! | acknowledged;
    const refusals = this.#refused[at]! | refused;
    const failures = this.#failed[at]! | failed | refusals;
    let whole = 0;
    let possible = 0;
    let refusedCount = 0;
    for (const { mask } of ofClass.replicas) {
      if ((acks & mask) === mask) whole++;
      if ((failures & mask) === 0) possible++;
      if ((refusals & mask) !== 0) refusedCount++;
    }
    if (whole >= this.#required) return written;
    if (possible >= this.#required) return undecided;
    const left = ofClass.replicas.length - refusedCount;
    if (refusedCount > 0 && left < this.#required) return refusedForGood;
    // Once one replica has refused, the others decide whether to repeat is of any use.
    const members = (1 << ofClass.members.length) - 1;
    const isOut = (members & ~(acks | failures)) !== 0;
    return refusals !== 0 && isOut ? undecided : failedForNow;
  }

  #mark(masks: Uint16Array, target: WriteTarget): void {
    const bitOfClass = this.#bitsOf(target.instanceIndex);
    for (const at of this.#present) masks[at]! |= bitOfClass[at]!;
  }

  /** Bit of the instance in each class that is present; 0 where it is no member. */
  #bitsOf(instanceIndex: number): Uint16Array {
    const bits = new Uint16Array(this.#ownership.classes.length);
    for (const at of this.#present) {
      const bit = this.#classAt(at).members.indexOf(instanceIndex);
      if (bit >= 0) bits[at] = 1 << bit;
    }
    return bits;
  }

  #classAt(at: number): ShardClass {
    return this.#ownership.classes[at]!;
  }

  #splitRows(rowsOfClass: Uint32Array): WriteTarget[] {
    const counts = new Map<number, number>();
    for (const at of this.#present) {
      for (const index of this.#classAt(at).members) {
        counts.set(index, (counts.get(index) ?? 0) + rowsOfClass[at]!);
      }
    }
    const lists = new Map<number, Uint32Array>();
    const filled = new Uint32Array(this.#ownership.instances.length);
    for (const [index, count] of counts) lists.set(index, new Uint32Array(count));
    const listsOfClass = this.#ownership.classes.map(({ members }) =>
      members.map((index) => lists.get(index)),
    );
    const picked = this.#picked;
    const classOfRow = this.#classOfRow!;
    const membersOfClass = this.#ownership.classes.map(({ members }) => members);
    const count = picked?.length ?? this.#rowCount;
    for (let i = 0; i < count; i++) {
      const row = picked === null ? i : picked[i]!;
      const at = classOfRow[row]!;
      const members = membersOfClass[at]!;
      const ofClass = listsOfClass[at]!;
      for (let member = 0; member < members.length; member++) {
        const index = members[member]!;
        ofClass[member]![filled[index]!] = row;
        filled[index]!++;
      }
    }
    return [...lists].map(([instanceIndex, rows]) => ({
      instanceIndex,
      rows: rows.length === count ? picked : rows,
      rowCount: rows.length,
    }));
  }

  /** Targets with the rows that they have not acknowledged before. */
  #withoutAcknowledged(targets: WriteTarget[]): WriteTarget[] {
    const acknowledged = this.#masks?.acknowledged;
    if (acknowledged === undefined) return targets;
    return targets.flatMap((target) => {
      const bitOfClass = this.#bitsOf(target.instanceIndex);
      const all = target.rows ?? Uint32Array.from({ length: target.rowCount }, (_, row) => row);
      const rows = all.filter(
        (row) => (acknowledged[row]! & bitOfClass[this.#classOf(row)]!) === 0,
      );
      return rows.length === 0 ? [] : [{ ...target, rows, rowCount: rows.length }];
    });
  }

  #classOf(row: number): number {
    return this.#classOfRow === null ? 0 : this.#classOfRow[row]!;
  }

  #eachRow(visit: (row: number) => void): void {
    const picked = this.#picked;
    const count = picked?.length ?? this.#rowCount;
    for (let i = 0; i < count; i++) visit(picked === null ? i : picked[i]!);
  }
}

function emptyMasks(rowCount: number, acknowledged: Uint16Array): RowMasks {
  return {
    acknowledged,
    refused: new Uint16Array(rowCount),
    failed: new Uint16Array(rowCount),
    superseded: new Uint8Array(rowCount),
    outcome: new Uint8Array(rowCount),
  };
}

/** Fills in the class of each row; returns the number of rows by class. */
function classifyRows(
  { rowCount, picked, slots, idHash }: CountedRows,
  { numShards, classOfShard, classes }: Ownership,
  classOfRow: Uint32Array,
): Uint32Array {
  const rowsOfClass = new Uint32Array(classes.length);
  const count = picked?.length ?? rowCount;
  for (let i = 0; i < count; i++) {
    const row = picked === null ? i : picked[i]!;
    const at = classOfShard[idHash[slots[row]!]! % numShards]!;
    classOfRow[row] = at;
    rowsOfClass[at]!++;
  }
  return rowsOfClass;
}

const written = 0;
const undecided = 1;
const refusedForGood = 2;
const failedForNow = 3;
type Verdict = 0 | 1 | 2 | 3;

/** Outcomes that no repetition changes. */
function isFinal(outcome: number): boolean {
  return (
    outcome === rowOutcome.tooFarPast ||
    outcome === rowOutcome.tooFarFuture ||
    outcome === rowOutcome.badSeries ||
    outcome === rowOutcome.otherTags ||
    outcome === rowOutcome.badValue
  );
}
