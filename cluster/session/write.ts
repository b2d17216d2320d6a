/**
 * The writing half of the session: attempts, resends and retries of one write inside its deadline.
 */
import { assert, BrokenInvariant } from '#lib/assert.ts';
import { backOff, type Backoff, type TimedWork, untilAborted, WorkSignals } from '#lib/env/wait.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import {
  formatLevelFirst,
  rowVersionsFormatLevel,
  typedRowsFormatLevel,
} from '#lib/format_level.ts';
import { HybridClock, liveLagMax } from '#lib/hybrid_clock.ts';
import { type WriteConsistency, writeReplicasRequired } from './consistency.ts';
import {
  outstandingBytesPerInstanceMax,
  outstandingRowsMax,
  outstandingRowsPerInstanceMax,
  staleRetriesMax,
  writeRetriesMax,
} from '../limits.ts';
import { namespaceNumberIn } from '../namespaces/numbers.ts';
import { type NodeService, rowOutcome, type WriteResponse } from '../node/service.ts';
import type { Ownership } from '../topology/ownership.ts';
import {
  ColumnPool,
  type Columns,
  copyRows,
  type PackedBatch,
  type PackedColumns,
  RowPacker,
  type RowsCopy,
  stillKnown,
} from './pack_rows.ts';
import { ClockRefusals } from './clock_refusals.ts';
import { ReferenceTables } from './reference_tables.ts';
import type { References } from './references.ts';
import { RetryBudget } from './retry_budget.ts';
import type {
  SeriesTable,
  SessionOptions,
  SessionRows,
  SessionTypedRows,
  WriteOptions,
} from './types.ts';
import type { TopologyView } from '../topology/topology.ts';
import {
  Acknowledgements,
  type TargetRows,
  type Unwritten,
  type WriteTarget,
} from './acknowledgements.ts';
import { isRetryable, writeOutcome, type WriteResult } from './write_result.ts';

const writeTimeoutMillisDefault = 10_000;
const writeBackoff: Backoff = { firstMillis: 500, factor: 3 };
/** A node may see a new placement a little before or after us. */
const staleBackoff: Backoff = { firstMillis: 100, factor: 2 };

/** When no instance failed. */
const tooFewReplicas = 'too few replicas are AVAILABLE, or took the rows';

/** As in `RetryBudget`. */
const tooManyRetries = 'not tried again: too much of what was sent had to be already';

/** Instances' errors that a result keeps. */
const errorsKeptMax = 16;

/** What is on its way to one instance. */
interface InFlight {
  rows: number;
  bytes: number;
}

export class SessionWriter {
  readonly #options: SessionOptions;
  readonly #pool = new ColumnPool();
  readonly #packer: RowPacker = new RowPacker(this.#pool);
  readonly #references: ReferenceTables;
  /** The view of which instances and namespaces have references. */
  #referencesView: TopologyView | null = null;
  readonly #inFlight = new Map<string, InFlight>();
  readonly #signals: WorkSignals;
  readonly #versions: HybridClock;
  readonly #clockRefusals: ClockRefusals;
  readonly #retries = new RetryBudget();
  #lastRequest = 0;
  /** Writes up to this version have it themselves: see `#deriveNoneAfter`. */
  #underivedUpTo = -1;
  /** What nodes have said that they write: then all of them read it, and will. */
  #formatLevel = formatLevelFirst;
  #rowsOutstanding = 0;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#references = new ReferenceTables(options.env.clock, options.referenceBytesMax);
    this.#versions = new HybridClock(options.env.clock);
    this.#clockRefusals = new ClockRefusals(options.log, options.env.clock);
    this.#signals = new WorkSignals(
      options.env,
      options.writeTimeoutMillis ?? writeTimeoutMillisDefault,
    );
  }

  get outstandingRows(): number {
    return this.#rowsOutstanding;
  }

  async write(
    namespace: string,
    rows: SessionRows | SessionTypedRows,
    series: SeriesTable,
    signal: AbortSignal,
    {
      consistency = this.#options.writeConsistency ?? 'majority',
      namespacesRevision = 0,
    }: WriteOptions,
  ): Promise<WriteResult> {
    const { rowCount } = rows;
    if (rowCount === 0) return wholeResult(0, []);
    const { view } = this.#options.topology;
    checkWritable(view, namespace);
    this.#retainReferences(view);
    if (this.#rowsOutstanding + rowCount > outstandingRowsMax) {
      throw new TsdbError(
        'RESOURCE_EXHAUSTED',
        `cannot write: more than ${outstandingRowsMax} rows wait for their acknowledgement`,
      );
    }
    signal.throwIfAborted();
    const copy = copyRows(rows, series, this.#pool);
    const version = this.#versions.next();
    const { formatLevel } = this;
    const isTyped = copy.typed !== null || copy.startNanos !== null;
    if (isTyped && formatLevel < typedRowsFormatLevel) {
      this.#pool.give(copy);
      throw new TsdbError(
        'UNAVAILABLE',
        'cannot write: typed rows and start times are not taken before the upgrade of the cluster is finished (tsdbctl upgrade finish)',
      );
    }
    const derivesVersions = formatLevel >= rowVersionsFormatLevel && version > this.#underivedUpTo;
    const until = this.#signals.begin(signal);
    const work = new Work(
      { namespace, copy, series, consistency, version, derivesVersions, namespacesRevision },
      () => {
        until.end();
        this.#pool.give(copy);
      },
    );
    this.#rowsOutstanding += rowCount;
    this.#retries.earn(rowCount);
    let isSure = false;
    try {
      const result = await this.#run(work, view, until, signal);
      // What is refused for want of room is so at all owners, usually, and for long.
      isSure = result.outcomes?.includes(writeOutcome.unavailable) !== true;
      return result;
    } finally {
      // Whoever has its rows all the same holds them at versions that a later write may have, too.
      if (!isSure) this.#deriveNoneAfter(work.version);
      this.#rowsOutstanding -= rowCount;
      // What is still on its way to slower replicas goes on until the deadline without the caller.
      until.release();
      work.giveBack();
    }
  }

  /** Attempts, each with the rows that the one before could not write for a passing reason. */
  async #run(
    work: Work,
    firstView: TopologyView,
    until: TimedWork,
    caller: AbortSignal,
  ): Promise<WriteResult> {
    const { copy, series } = work;
    const errors = new Set<string>();
    let outcomes: Uint8Array | null = null;
    let picked: TargetRows = null;
    if (copy.refusedCount > 0) {
      outcomes = new Uint8Array(copy.rowCount);
      picked = acceptedRows(copy, series, outcomes);
    }
    let view = firstView;
    let retries = 0;
    let staleRetries = 0;
    let before: Attempt | null = null;
    let { derivesVersions } = work;
    while (picked === null || picked.length > 0) {
      const { ownership } = view;
      assert(ownership !== null, 'rows are sent to owners of a placement');
      const attempt = new Attempt(
        this,
        work,
        view,
        ownership,
        picked,
        before,
        until.signal,
        derivesVersions,
      );
      before = attempt;
      const sent = view;
      work.borrow();
      const giveBack = () => work.giveBack();
      attempt.finished
        .then(() => this.#followUp(work, attempt, sent, until.signal))
        .then(giveBack, giveBack);
      // The caller's signal ends the requests of the attempt, and so decides it.
      const failed = await attempt.decided;
      if (failed === null) break;
      caller.throwIfAborted();
      for (const error of attempt.errors) if (errors.size < errorsKeptMax) errors.add(error);
      if (errors.size === 0) errors.add(tooFewReplicas);
      outcomes ??= new Uint8Array(copy.rowCount);
      picked = takeOutcomes(outcomes, failed);
      if (picked.length === 0) break;
      if (attempt.isClockAhead) {
        const next = this.#versions.nextAfterRefusal(attempt.version);
        // A lower one: the clock was set back since, and the next attempt may pass.
        if (next >= work.version) this.#clockRefusals.note(attempt.errors);
        work.version = next;
      }
      if (attempt.hasSuperseded) {
        // At once, and to all owners, whoever took the rows as they were: with a version of the write's
        // own they come after what is in their way, of which the answer has told. It happens once a write.
        derivesVersions = false;
        work.version = this.#versions.next();
        before = null;
        picked = stillKnown(copy, picked, series);
        clearOutcomes(outcomes, picked);
        continue;
      }
      // A node that knows a newer placement is not one that has too much to do.
      if (attempt.isStale ? staleRetries++ >= staleRetriesMax : retries++ >= writeRetriesMax) break;
      if (!attempt.isStale && !this.#retries.spend(picked.length)) {
        errors.add(tooManyRetries);
        break;
      }
      const next = attempt.isStale
        ? await this.#newerView(view, staleRetries - 1, until.signal)
        : await this.#viewAfter(writeBackoff, retries - 1, until.signal);
      // Without placement or namespace nobody can have the rows: they stay as the attempt left
      // them.
      if (next === null || next.ownership === null || !next.namespaces.has(work.namespace)) break;
      view = next;
      picked = stillKnown(copy, picked, series);
      clearOutcomes(outcomes, picked);
    }
    return resultOf(copy, outcomes, [...errors]);
  }

  /**
   * A write may be acknowledged although one replica refused rows as stale. Their new owners get
   * them after it, once, so that the replica does not wait for a repair.
   */
  async #followUp(
    work: Work,
    attempt: Attempt,
    sent: TopologyView,
    until: AbortSignal,
  ): Promise<void> {
    const stale = attempt.staleWritten();
    if (stale.length === 0 || until.aborted) return;
    const view = await this.#newerView(sent, 0, until);
    if (view === null || view.ownership === null || !view.namespaces.has(work.namespace)) return;
    const picked = stillKnown(work.copy, stale, work.series);
    if (picked.length === 0) return;
    const { derivesVersions } = attempt;
    const owners = view.ownership;
    await new Attempt(this, work, view, owners, picked, attempt, until, derivesVersions).finished;
  }

  /** The view of the store now; when a node knows better than the store, after a short while. */
  async #newerView(
    view: TopologyView,
    retry: number,
    until: AbortSignal,
  ): Promise<TopologyView | null> {
    const { topology } = this.#options;
    const now = await topology.refresh(until).catch(() => topology.view);
    const isNewer =
      now.placementVersion !== view.placementVersion ||
      now.namespacesRevision !== view.namespacesRevision;
    if (isNewer) return now;
    return this.#viewAfter(staleBackoff, retry, until);
  }

  /** The view after a pause; null when the deadline or the caller ends it. */
  async #viewAfter(
    backoff: Backoff,
    retry: number,
    until: AbortSignal,
  ): Promise<TopologyView | null> {
    try {
      await backOff(this.#options.env, backoff, retry, until);
    } catch {
      return null;
    }
    return this.#options.topology.refresh(until).catch(() => this.#options.topology.view);
  }

  referencesOf({ series, namespace, copy }: Work, instanceId: string): References {
    return this.#references.of(series, instanceId, namespace, copy.slotMax);
  }

  nodeOf(ownership: Ownership, instanceIndex: number): NodeService {
    return this.#options.nodeOf(ownership.instances[instanceIndex]!);
  }

  pack(
    { version, copy, series }: Work,
    derivesVersions: boolean,
    picked: TargetRows,
    references: References,
  ): PackedBatch {
    return this.#packer.pack(version, derivesVersions, copy, picked, series, references);
  }

  packColumns(
    { version, copy, series }: Work,
    derivesVersions: boolean,
    picked: TargetRows,
    references: References,
  ): PackedColumns {
    return this.#packer.packColumns(version, derivesVersions, copy, picked, series, references);
  }

  /** Formats up to this level may be written now, as far as this session has heard; it never falls. */
  get formatLevel(): number {
    return Math.max(this.#options.formats?.level() ?? 0, this.#formatLevel);
  }

  /** The highest version that was given or heard of. */
  get lastVersion(): number {
    return this.#versions.last;
  }

  /**
   * A node has accepted a version of this session, and says the highest one of anybody: later writes
   * come after both. What it writes itself all nodes read.
   * @param acceptedVersion of what was written
   */
  learn(
    { highestVersion, deletionVersion = 0, formatLevelWritten = formatLevelFirst }: WriteResponse,
    acceptedVersion: number,
  ): void {
    this.#versions.raise(Math.max(highestVersion, acceptedVersion));
    this.noteDeletion(deletionVersion);
    this.#formatLevel = Math.max(this.#formatLevel, formatLevelWritten);
  }

  /** As `Session.noteDeletion`. */
  noteDeletion(version: number): void {
    this.#deriveNoneAfter(version);
  }

  /** What this session writes is later than what has this version, also where that is not known. */
  #deriveNoneAfter(version: number): void {
    // Versions that are derived for later rows are above it.
    this.#underivedUpTo = Math.max(this.#underivedUpTo, version + liveLagMax);
  }

  giveBack(columns: Columns): void {
    this.#pool.give(columns);
  }

  nextRequest(): number {
    return ++this.#lastRequest;
  }

  /**
   * Counts what goes to an instance until `leave`.
   * @throws {TsdbError} RESOURCE_EXHAUSTED when too much is on its way to it
   */
  enter(instanceId: string, rows: number, bytes: number): void {
    const flight = this.#inFlight.get(instanceId) ?? { rows: 0, bytes: 0 };
    const rowsMax = this.#options.rowsPerInstanceMax ?? outstandingRowsPerInstanceMax;
    const isFull =
      flight.rows + rows > rowsMax || flight.bytes + bytes > outstandingBytesPerInstanceMax;
    if (isFull && flight.rows > 0) {
      throw new TsdbError('RESOURCE_EXHAUSTED', 'too many rows are on their way to the instance');
    }
    flight.rows += rows;
    flight.bytes += bytes;
    this.#inFlight.set(instanceId, flight);
  }

  leave(instanceId: string, rows: number, bytes: number): void {
    const flight = this.#inFlight.get(instanceId)!;
    flight.rows -= rows;
    flight.bytes -= bytes;
    if (flight.rows === 0) this.#inFlight.delete(instanceId);
  }

  /** What has left the cluster leaves its references. */
  #retainReferences(view: TopologyView): void {
    if (this.#referencesView === view) return;
    this.#referencesView = view;
    const ids = new Set(view.placement?.instances.map(({ id }) => id));
    this.#references.retain(ids, view.namespaces);
  }
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
  readonly namespacesRevision: number;
}

/**
 * One write, and how many borrow its columns: its caller, attempts under way, nodes that read them.
 */
class Work implements WriteFacts {
  readonly namespace: string;
  readonly copy: RowsCopy;
  readonly series: SeriesTable;
  readonly consistency: WriteConsistency;
  version: number;
  readonly derivesVersions: boolean;
  readonly namespacesRevision: number;
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
    this.namespacesRevision = facts.namespacesRevision;
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
class Attempt {
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
  readonly #writer: SessionWriter;
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
    writer: SessionWriter,
    work: Work,
    view: TopologyView,
    ownership: Ownership,
    picked: TargetRows,
    before: Attempt | null,
    until: AbortSignal,
    derivesVersions: boolean,
  ) {
    this.version = work.version;
    this.#writer = writer;
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
    const writer = this.#writer;
    const references = writer.referencesOf(work, instanceId);
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
    const writer = this.#writer;
    const view = this.#view;
    const until = this.#until;
    const request = writer.nextRequest();
    const { version } = work;
    const node = writer.nodeOf(this.#ownership, target.instanceIndex);
    const { id } = this.#ownership.instances[target.instanceIndex]!;
    const head = {
      namespace: work.namespace,
      namespaceNumber: this.#namespaceNumber,
      placementVersion: view.placementVersion,
      namespacesRevision: work.namespacesRevision,
    };
    const packed =
      node.writeColumns === undefined
        ? writer.pack(work, this.derivesVersions, rows, references)
        : writer.packColumns(work, this.derivesVersions, rows, references);
    const { referenceEpoch, entrySlots, entryGenerations, columns } = packed;
    writer.enter(id, rowCount, packed.byteLength);
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
          writer.giveBack(columns);
          work.giveBack();
        };
        answering.then(giveBack, giveBack);
      }
      answer = await untilAborted(answering, until);
    } finally {
      writer.leave(id, rowCount, packed.byteLength);
    }
    writer.learn(answer, version);
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

function checkWritable(view: TopologyView, namespace: string): void {
  if (view.ownership === null) {
    const reason = view.isLoaded ? 'there is no placement' : 'the topology is not yet loaded';
    throw new TsdbError('UNAVAILABLE', `cannot write: ${reason}`);
  }
  if (!view.namespaces.has(namespace)) {
    throw new TsdbError('NOT_FOUND', `namespace is not found: ${JSON.stringify(namespace)}`);
  }
}

function acceptedRows(copy: RowsCopy, series: SeriesTable, outcomes: Uint8Array): Uint32Array {
  const accepted = new Uint32Array(copy.rowCount - copy.refusedCount);
  const { refused } = series;
  let count = 0;
  for (let row = 0; row < copy.rowCount; row++) {
    if (refused[copy.slots[row]!] === 0) accepted[count++] = row;
    else outcomes[row] = writeOutcome.refused;
  }
  return accepted;
}

/** Notes the outcomes and returns the rows of which the outcome is retryable. */
function takeOutcomes(outcomes: Uint8Array, { rows, outcomes: failed }: Unwritten): Uint32Array {
  for (const [i, row] of rows.entries()) outcomes[row] = failed[i]!;
  return rows.filter((row) => isRetryable(outcomes[row]!));
}

function clearOutcomes(outcomes: Uint8Array, rows: Uint32Array): void {
  for (const row of rows) outcomes[row] = writeOutcome.written;
}

function wholeResult(rowCount: number, errors: readonly string[]): WriteResult {
  return { rowCount, writtenCount: rowCount, outcomes: null, rows: null, errors };
}

function resultOf(
  copy: RowsCopy,
  outcomes: Uint8Array | null,
  errors: readonly string[],
): WriteResult {
  const { rowCount, timeUnitNanos } = copy;
  if (outcomes === null) return wholeResult(rowCount, errors);
  let writtenCount = 0;
  for (const outcome of outcomes) if (outcome === writeOutcome.written) writtenCount++;
  if (writtenCount === rowCount) return wholeResult(rowCount, errors);
  const slots = copy.slots.slice(0, rowCount);
  const generations = copy.generations.slice(0, rowCount);
  const timestamps = copy.timestamps.slice(0, rowCount);
  const rows = { slots, generations, timestamps, timeUnitNanos };
  return { rowCount, writtenCount, outcomes, rows, errors };
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
