/**
 * The writing half of the session: what a write may be sent with, and its attempts inside its deadline.
 */
import { assert } from '#lib/assert.ts';
import { backOff, type Backoff, type TimedWork, WorkSignals } from '#lib/env/wait.ts';
import { TsdbError } from '#lib/errors.ts';
import {
  formatLevelFirst,
  rowVersionsFormatLevel,
  typedRowsFormatLevel,
} from '#lib/format_level.ts';
import { HybridClock, liveLagMax } from '#lib/hybrid_clock.ts';
import { outstandingRowsMax, staleRetriesMax, writeRetriesMax } from '../limits.ts';
import type { WriteResponse } from '../node/service.ts';
import { ColumnPool, copyRows, RowPacker, type RowsCopy, stillKnown } from './pack_rows.ts';
import { ClockRefusals } from './clock_refusals.ts';
import { ReferenceTables } from './reference_tables.ts';
import { InFlight } from './pressure/in_flight.ts';
import { RetryBudget } from './pressure/retry_budget.ts';
import type {
  SeriesTable,
  SessionOptions,
  SessionRows,
  SessionTypedRows,
  WriteOptions,
} from './types.ts';
import type { TopologyView } from '../topology/topology.ts';
import type { TargetRows, Unwritten } from './outcomes/acknowledgements.ts';
import { ReplacedRows } from './outcomes/replaced_rows.ts';
import { Attempt, type AttemptParts, errorsKeptMax, Work } from './attempt.ts';
import { isRetryable, writeOutcome, type WriteResult } from './outcomes/write_result.ts';

const writeTimeoutMillisDefault = 10_000;
const writeBackoff: Backoff = { firstMillis: 500, factor: 3 };
/** A node may see a new placement a little before or after us. */
const staleBackoff: Backoff = { firstMillis: 100, factor: 2 };

/** When no instance failed. */
const tooFewReplicas = 'too few replicas are AVAILABLE, or took the rows';

/** As in `RetryBudget`. */
const tooManyRetries = 'not tried again: too much of what was sent had to be already';

export class SessionWriter {
  readonly #options: SessionOptions;
  readonly #pool = new ColumnPool();
  readonly #references: ReferenceTables;
  /** The view of which instances and namespaces have references. */
  #referencesView: TopologyView | null = null;
  readonly #attempts: AttemptParts;
  readonly #signals: WorkSignals;
  readonly #versions: HybridClock;
  readonly #clockRefusals: ClockRefusals;
  readonly #retries = new RetryBudget();
  /** Writes up to this version have it themselves: see `#deriveNoneAfter`. */
  #underivedUpTo = -1;
  /** What nodes have said that they write: then all of them read it, and will. */
  #formatLevel = formatLevelFirst;
  #rowsOutstanding = 0;
  readonly #seed: number;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#seed = options.env.random.u32();
    this.#references = new ReferenceTables(options.env.clock, options.referenceBytesMax);
    let lastRequest = 0;
    this.#attempts = {
      pool: this.#pool,
      packer: new RowPacker(this.#pool),
      references: this.#references,
      inFlight: new InFlight(options.rowsPerInstanceMax),
      nodeOf: (instance) => options.nodeOf(instance),
      nextRequest: () => ++lastRequest,
      learn: (answer, acceptedVersion) => this.#learn(answer, acceptedVersion),
    };
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
    { consistency = this.#options.levels?.writeConsistency ?? 'majority', registry }: WriteOptions,
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
      {
        namespace,
        copy,
        series,
        consistency,
        version,
        derivesVersions,
        registry: registry ?? null,
      },
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
    let replaced = derivesVersions ? null : new ReplacedRows(copy, this.#seed);
    if (replaced !== null) picked = replaced.without(picked);
    while (picked === null || picked.length > 0) {
      const { ownership } = view;
      assert(ownership !== null, 'rows are sent to owners of a placement');
      const attempt = new Attempt(
        this.#attempts,
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
        replaced = new ReplacedRows(copy, this.#seed);
        picked = stillKnown(copy, replaced.without(picked), series);
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
    if (outcomes !== null) replaced?.tell(outcomes);
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
    const parts = this.#attempts;
    await new Attempt(parts, work, view, owners, picked, attempt, until, derivesVersions).finished;
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
  #learn(
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

  /** What has left the cluster leaves its references. */
  #retainReferences(view: TopologyView): void {
    if (this.#referencesView === view) return;
    this.#referencesView = view;
    const ids = new Set(view.placement?.instances.map(({ id }) => id));
    this.#references.retain(ids, view.namespaces);
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
