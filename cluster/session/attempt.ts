/** One attempt of a write: requests to all owners of its rows, and what their answers come to. */
import { BrokenInvariant } from '#lib/assert.ts';
import { untilAborted } from '#lib/env/wait.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { namespaceNumberIn } from '../namespaces/numbers.ts';
import type { RegistryVersion } from '../namespaces/samples.ts';
import { rowOutcome, type WriteResponse } from '../node/service.ts';
import type { Ownership } from '../topology/ownership.ts';
import type { TopologyView } from '../topology/topology.ts';
import {
  Acknowledgements,
  type TargetRows,
  type Unwritten,
  type WriteTarget,
} from './outcomes/acknowledgements.ts';
import { type WriteConsistency, writeReplicasRequired } from './consistency.ts';
import type { ColumnPool, RowPacker, RowsCopy } from './pack_rows.ts';
import type { InFlight } from './pressure/in_flight.ts';
import type { ReferenceTables } from './reference_tables.ts';
import type { References } from './references.ts';
import type { SeriesTable, SessionOptions } from './types.ts';
import { writeOutcome } from './outcomes/write_result.ts';

/** Instances' errors that a result keeps. */
export const errorsKeptMax = 16;

/** What all attempts of a session share. */
export interface AttemptParts {
  readonly pool: ColumnPool;
  readonly packer: RowPacker;
  readonly references: ReferenceTables;
  readonly inFlight: InFlight;
  readonly nodeOf: SessionOptions['nodeOf'];
  nextRequest(): number;
  /** @param acceptedVersion of what was written */
  learn(answer: WriteResponse, acceptedVersion: number): void;
}

/** One write. */
interface WriteFacts {
  readonly namespace: string;
  readonly copy: RowsCopy;
  readonly series: SeriesTable;
  readonly consistency: WriteConsistency;
  /** All replicas get the same version, and all attempts but one after a refusal of it, or when another value was in the way. */
  readonly version: number;
  /** Rows have versions that are derived from their times, until another value is in the way. */
  readonly derivesVersions: boolean;
  /** As of `WriteOptions`: who has chosen the namespaces by it goes on by it. */
  readonly registry: RegistryVersion | null;
}

/**
 * One write, and how many borrow its columns: its caller, attempts under way, nodes that read them.
 */
export class Work implements WriteFacts {
  readonly namespace: string;
  readonly copy: RowsCopy;
  readonly series: SeriesTable;
  readonly consistency: WriteConsistency;
  version: number;
  readonly derivesVersions: boolean;
  readonly registry: RegistryVersion | null;
  readonly #onEnd: () => void;
  #borrowers = 1;

  /** @param onEnd called when the last one has given them back */
  constructor(facts: WriteFacts, onEnd: () => void) {
    this.namespace = facts.namespace;
    this.copy = facts.copy;
    this.series = facts.series;
    this.consistency = facts.consistency;
    this.version = facts.version;
    this.derivesVersions = facts.derivesVersions;
    this.registry = facts.registry;
    this.#onEnd = onEnd;
  }

  borrow(): void {
    this.#borrowers++;
  }

  giveBack(): void {
    this.#borrowers--;
    if (this.#borrowers === 0) this.#onEnd();
  }
}

/** One attempt: a request to each owner, and a resend where a node does not know a series. */
export class Attempt {
  /** Resolves as soon as no answer can change the outcome; requests may be on their way still. */
  readonly decided: Promise<Unwritten | null>;
  /** Resolves when the last request has ended. */
  readonly finished: Promise<void>;
  readonly errors: string[] = [];
  /**
   * An instance has a newer placement, other shards, or another namespace of the name than the view
   * of this attempt.
   */
  isStale = false;
  /** An instance refused the version, since our clock is ahead. */
  isClockAhead = false;
  /** That its first requests have. */
  readonly version: number;
  readonly #parts: AttemptParts;
  readonly #work: Work;
  readonly #view: TopologyView;
  readonly #namespaceNumber: number;
  readonly #ownership: Ownership;
  readonly #until: AbortSignal;
  /** Also for what it sends after it was decided: a version that is higher might beat a later write. */
  readonly derivesVersions: boolean;
  readonly #count: Acknowledgements;
  #isDecided = false;
  #unwritten: Unwritten | null = null;
  readonly #staleRows = new Set<number>();
  #resolve!: (unwritten: Unwritten | null) => void;
  #reject!: (error: unknown) => void;

  constructor(
    parts: AttemptParts,
    work: Work,
    view: TopologyView,
    ownership: Ownership,
    picked: TargetRows,
    before: Attempt | null,
    until: AbortSignal,
    derivesVersions: boolean,
  ) {
    this.version = work.version;
    this.#parts = parts;
    this.#work = work;
    this.#view = view;
    this.#namespaceNumber = namespaceNumberIn(view.namespaces, work.namespace);
    this.#ownership = ownership;
    this.#until = until;
    this.derivesVersions = derivesVersions;
    this.decided = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const { copy, series, consistency } = work;
    this.#count = new Acknowledgements(
      ownership,
      writeReplicasRequired(consistency, ownership.replicaFactor),
      {
        rowCount: copy.rowCount,
        picked,
        slots: copy.slots,
        idHash: series.idHash,
        ...(before?.holdsUnder(view) === true
          ? { acknowledged: before.#count.acknowledged() }
          : {}),
      },
    );
    // Batches are built here, before the first await, while the caller's columns and the table
    // hold.
    const requests = this.#count.targets.map((target) => this.#deliver(target));
    this.#settleIfDecided();
    this.finished = Promise.all(requests).then(
      () => {},
      (error: unknown) => this.#stopProcess(error),
    );
  }

  /** An instance has another value in the place of a row, which the row did not replace. */
  get hasSuperseded(): boolean {
    return this.derivesVersions && this.#count.hasSuperseded;
  }

  /** Whether who has acknowledged a row counts under this view, too. */
  holdsUnder(view: TopologyView): boolean {
    // What an instance had may be another one's, or be lost, under another placement.
    return (
      view.ownership === this.#ownership &&
      namespaceNumberIn(view.namespaces, this.#work.namespace) === this.#namespaceNumber
    );
  }

  async #deliver(target: WriteTarget): Promise<void> {
    const { id } = this.#ownership.instances[target.instanceIndex]!;
    try {
      const outcomes = await this.#send(target, id);
      if (outcomes === null) this.#count.wrote(target);
      else {
        this.#noteStale(target, outcomes);
        this.#count.answered(target, outcomes);
      }
    } catch (error) {
      if (error instanceof BrokenInvariant) throw error;
      if (this.errors.length < errorsKeptMax) this.errors.push(`${id}: ${messageOf(error)}`);
      const outcome = outcomeOfError(error);
      if (outcome === writeOutcome.clockAhead) this.isClockAhead = true;
      this.#count.failedWhole(target, outcome);
    }
    this.#settleIfDecided();
  }

  /** Rows that an instance refused as stale and that count as written nevertheless. */
  staleWritten(): Uint32Array {
    const unwritten = new Set(this.#unwritten?.rows);
    return Uint32Array.from(this.#staleRows.difference(unwritten)).sort();
  }

  #noteStale(target: WriteTarget, outcomes: Uint8Array): void {
    for (const [i, outcome] of outcomes.entries()) {
      if (!isStaleOutcome(outcome)) continue;
      this.isStale = true;
      this.#staleRows.add(target.rows === null ? i : target.rows[i]!);
    }
  }

  /**
   * Sends the target's rows, those that the node asks for twice. Resolves to outcomes, null when
   * all written.
   */
  async #send(target: WriteTarget, instanceId: string): Promise<Uint8Array | null> {
    const work = this.#work;
    const { series, namespace, copy } = work;
    const references = this.#parts.references.of(series, instanceId, namespace, copy.slotMax);
    const answer = await this.#request(target, target.rows, target.rowCount, references);
    if (answer.outcomes.length === 0) return null;
    const outcomes = new Uint8Array(answer.outcomes);
    const unknown: number[] = [];
    for (const [i, outcome] of outcomes.entries()) {
      if (outcome !== rowOutcome.unknownReference) continue;
      const row = target.rows === null ? i : target.rows[i]!;
      const slot = work.copy.slots[row]!;
      references.forget(slot);
      if (work.series.generation[slot] === work.copy.generations[row]) unknown.push(i);
    }
    if (unknown.length === 0) return outcomes;
    const rows = Uint32Array.from(unknown, (i) => (target.rows === null ? i : target.rows[i]!));
    const second = await this.#request(target, rows, rows.length, references);
    for (const [at, i] of unknown.entries()) {
      outcomes[i] = second.outcomes.length === 0 ? rowOutcome.written : second.outcomes[at]!;
    }
    return outcomes.every((outcome) => outcome === rowOutcome.written) ? null : outcomes;
  }

  async #request(
    target: WriteTarget,
    rows: TargetRows,
    rowCount: number,
    references: References,
  ): Promise<WriteResponse> {
    const work = this.#work;
    const parts = this.#parts;
    const view = this.#view;
    const until = this.#until;
    const request = parts.nextRequest();
    const { version, copy, series } = work;
    const instance = this.#ownership.instances[target.instanceIndex]!;
    const { id } = instance;
    const node = parts.nodeOf(instance);
    const head = {
      namespace: work.namespace,
      namespaceNumber: this.#namespaceNumber,
      placementVersion: view.placementVersion,
      namespacesRevision: work.registry?.revision ?? 0,
      namespacesLineageId: work.registry?.lineageId ?? '',
    };
    const packed =
      node.writeColumns === undefined
        ? parts.packer.pack(version, this.derivesVersions, copy, rows, series, references)
        : parts.packer.packColumns(version, this.derivesVersions, copy, rows, series, references);
    const { referenceEpoch, entrySlots, entryGenerations, columns } = packed;
    parts.inFlight.enter(id, rowCount, packed.byteLength);
    let answer: WriteResponse;
    try {
      let answering: Promise<WriteResponse>;
      if (columns === null) {
        answering = node.write({ ...head, referenceEpoch, batch: packed.batch }, until);
      } else {
        answering = node.writeColumns!({ ...head, referenceEpoch, batch: packed.batch }, until);
        // The node reads the columns until it has answered, also when nobody waits for that any
        // more.
        work.borrow();
        const giveBack = () => {
          parts.pool.give(columns);
          work.giveBack();
        };
        answering.then(giveBack, giveBack);
      }
      answer = await untilAborted(answering, until);
    } finally {
      parts.inFlight.leave(id, rowCount, packed.byteLength);
    }
    parts.learn(answer, version);
    const { outcomes } = answer;
    if (outcomes.length !== 0 && outcomes.length !== rowCount) {
      throw new TsdbError('INTERNAL', `answered ${outcomes.length} outcomes for ${rowCount} rows`);
    }
    references.learn(
      request,
      answer.referenceEpoch,
      entrySlots,
      entryGenerations,
      answer.references,
    );
    return answer;
  }

  #settleIfDecided(): void {
    if (this.#isDecided || !this.#count.isDecided()) return;
    this.#isDecided = true;
    this.#unwritten = this.#count.unwritten();
    this.#resolve(this.#unwritten);
  }

  /** A broken invariant reaches the caller, or nobody's handler, so that the process stops. */
  #stopProcess(error: unknown): void {
    if (!this.#isDecided) this.#reject(error);
    else {
      queueMicrotask(() => {
        throw error;
      });
    }
  }
}

function isStaleOutcome(outcome: number): boolean {
  return outcome === rowOutcome.stalePlacement || outcome === rowOutcome.shardNotOwned;
}

function outcomeOfError(error: unknown): number {
  if (!(error instanceof TsdbError)) return writeOutcome.unavailable;
  if (error.code === 'RESOURCE_EXHAUSTED') return writeOutcome.resourceExhausted;
  if (error.code === 'FAILED_PRECONDITION') return writeOutcome.clockAhead;
  return error.code === 'BAD_REQUEST' ? writeOutcome.badRequest : writeOutcome.unavailable;
}
