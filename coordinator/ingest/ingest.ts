/**
 * Writes on their way in: a body becomes rows through the write decoder, every ready namespace gets
 * them, and what came of each row is put into one answer.
 *
 *     all rows acknowledged                     → nothing
 *     some rows bad, the others acknowledged    → BAD_REQUEST that names the bad ones
 *     any row failed for a passing reason       → RESOURCE_EXHAUSTED or UNAVAILABLE: send it all again
 *     nodes refused what our clock says         → FAILED_PRECONDITION: the same, once that is mended
 */
import type { Session } from '#cluster/session/session.ts';
import {
  describeOutcome,
  isRetryable,
  writeOutcome,
  type OutcomeRows,
  type WriteResult,
} from '#cluster/session/write_result.ts';
import type {
  WriteDecoder,
  WriteDecoderRows,
  RemoteWriteVersion,
  SeriesVerdict,
} from '#engine/write_decoder/write_decoder.ts';
import { TsdbError } from '#lib/errors.ts';
import { missOfWindow, type WriteRules, writeWindow } from '#lib/block_time.ts';
import { murmur3 } from '#lib/hashing/hash.ts';
import type { Clock } from '#lib/env/env.ts';
import { idOfTags } from '#lib/series_id/from_tags.ts';
import { type IdScheme, idSchemeCode } from '#lib/series_id/scheme.ts';
import type { Log } from '#lib/log.ts';
import { formatDurationNanos, nanosPerMilli, nanosPerSecond } from '#lib/time.ts';
import { Turns, type Work } from '#lib/turns/turns.ts';
import { decodeTags, encodeTags, type Tag, tagsProblem } from '#lib/tags.ts';
import { ColdRefusals } from './cold_refusals.ts';
import type { IngestMetrics } from './metrics.ts';

/** The part of the session that ingestion needs. */
export type WriteSession = Pick<Session, 'write'>;

/** A namespace that takes writes, with what says which times it takes. */
export interface IngestNamespace extends WriteRules {
  readonly name: string;
}

export interface IngestRow {
  /** In any order; checked here. */
  readonly tags: readonly Tag[];
  readonly timestampNanos: bigint;
  readonly value: number;
}

/** Rows of a body that are written at once: more is rare, and would hold up others. */
const rowsAtOnce = 16_384;
/** Bytes of their tags: storage nodes name what is new of them in one go, and other writes wait for it. */
const tagBytesAtOnce = 1 << 20;
/** A remote-write body of so few compressed bytes and no more rows has nothing that would take long. */
const smallBodyBytes = 256 * 1024;
/** About what it takes to check and encode a row, in units of work (lib/turns/turns.ts). */
const rowUnits = 200;

interface EncodedRow {
  readonly tags: Uint8Array;
  readonly timestampNanos: bigint;
  readonly value: number;
}

/** Up to this row rows are written at once, from the first one on. @param tagBytes of a row */
function partEnd(first: number, rowCount: number, tagBytes: (row: number) => number): number {
  const most = Math.min(first + rowsAtOnce, rowCount);
  let bytes = tagBytes(first);
  let past = first + 1;
  while (past < most && bytes < tagBytesAtOnce) bytes += tagBytes(past++);
  return past;
}

/** Copies: the columns are the write decoder's until it reads the next body. */
function* partsOf(all: WriteDecoderRows, decoder: WriteDecoder): Iterable<WriteDecoderRows> {
  const { rowCount } = all;
  const slots = all.slots.slice(0, rowCount);
  const generations = all.generations.slice(0, rowCount);
  const timestamps = all.timestamps.slice(0, rowCount);
  const values = all.values.slice(0, rowCount);
  // Slots are asked before the next body may give one to another series.
  const tagBytes = Uint32Array.from(slots, (slot) => decoder.borrowTags(slot).length);
  for (let first = 0, past = 0; first < rowCount; first = past) {
    past = partEnd(first, rowCount, (row) => tagBytes[row]!);
    yield {
      ...all,
      rowCount: past - first,
      slots: slots.subarray(first, past),
      generations: generations.subarray(first, past),
      timestamps: timestamps.subarray(first, past),
      values: values.subarray(first, past),
    };
  }
}

export class Ingest {
  readonly #decoder: WriteDecoder;
  readonly #session: WriteSession;
  readonly #namespaces: () => readonly IngestNamespace[];
  readonly #metrics: IngestMetrics;
  readonly #clock: Pick<Clock, 'nowNanos' | 'monotonicMillis'>;
  readonly #coldRefusals: ColdRefusals;

  /** @param namespaces the READY unaggregated ones of the moment; empty when there is none */
  constructor(
    decoder: WriteDecoder,
    session: WriteSession,
    namespaces: () => readonly IngestNamespace[],
    metrics: IngestMetrics,
    clock: Pick<Clock, 'nowNanos' | 'monotonicMillis'>,
    log: Log,
  ) {
    this.#decoder = decoder;
    this.#session = session;
    this.#namespaces = namespaces;
    this.#metrics = metrics;
    this.#clock = clock;
    this.#coldRefusals = new ColdRefusals(metrics, log, clock);
  }

  /**
   * Writes a remote-write body.
   * @param body snappy block; not needed after the first await
   * @returns samples written
   * @throws {TsdbError} as in the table above
   */
  async remoteWrite(
    body: Uint8Array,
    version: RemoteWriteVersion,
    signal: AbortSignal,
  ): Promise<number> {
    const namespaces = this.#readyNamespaces();
    const rows = this.#decoder.remoteWrite(body, version);
    if (rows.histogramCount > 0) this.#metrics.droppedHistograms.increase(rows.histogramCount);
    const { rowCount } = rows;
    const format = version === 1 ? 'remote_write' : 'remote_write_v2';
    const isSmall = rowCount <= rowsAtOnce && body.length <= smallBodyBytes;
    const parts = isSmall ? [rows] : partsOf(rows, this.#decoder);
    await this.#write(namespaces, parts, rowCount, [], format, signal);
    return rowCount;
  }

  /** Preparation of rows that gives way to others. */
  begin(signal: AbortSignal): Work {
    return Turns.of(this.#clock).begin(signal, 'write');
  }

  /**
   * Writes rows of another format.
   * @param problems of rows that were left out before; they make the answer BAD_REQUEST
   */
  async rows(rows: readonly IngestRow[], problems: readonly string[], work: Work): Promise<void> {
    const namespaces = this.#readyNamespaces();
    const bad = [...problems];
    const good: EncodedRow[] = [];
    for (const { tags, timestampNanos, value } of rows) {
      // Tags with one name twice have no canonical layout, so they are refused before the write
      // decoder.
      const problem = tagsProblem(tags);
      if (problem === null) good.push({ tags: encodeTags(tags), timestampNanos, value });
      else bad.push(`${seriesText(tags)}: ${problem}`);
      if (work.spend(rowUnits)) await work.pause();
    }
    const parts = this.#decoded(good);
    await this.#write(namespaces, parts, good.length, bad, 'json', work.signal);
  }

  /** Rows by the write decoder, a part when it is asked for. */
  *#decoded(rows: readonly EncodedRow[]): Iterable<WriteDecoderRows> {
    if (rows.length === 0) yield this.#decoder.rows(rows);
    for (let first = 0, past = 0; first < rows.length; first = past) {
      past = partEnd(first, rows.length, (row) => rows[row]!.tags.length);
      yield this.#decoder.rows(rows.slice(first, past));
    }
  }

  #readyNamespaces(): readonly IngestNamespace[] {
    const namespaces = this.#namespaces();
    if (namespaces.length > 0) return namespaces;
    throw new TsdbError('UNAVAILABLE', 'unaggregated namespace is not yet initialized');
  }

  /**
   * Writes a body, part by part, so that no body holds up others for long.
   * @param rowCount of all parts
   */
  async #write(
    namespaces: readonly IngestNamespace[],
    parts: Iterable<WriteDecoderRows>,
    rowCount: number,
    problems: readonly string[],
    format: string,
    signal: AbortSignal,
  ): Promise<void> {
    const decoder = this.#decoder;
    const session = this.#session;
    const metrics = this.#metrics;
    const report = new BadRows(problems);
    const total = rowCount + problems.length;
    const cold = namespaces.map(() => 0);
    let passing: TsdbError | null = null;
    let firstRow = 0;
    for (const rows of parts) {
      const writes = namespaces.map(({ name }) => session.write(name, rows, decoder, signal));
      const results = await Promise.allSettled(writes);
      const nowNanos = this.#clock.nowNanos();
      const refusals = namespaces.map((namespace) => ({
        namespace,
        decoder,
        nowNanos,
        coldFromNanos: writeWindow({ ...namespace, coldWrites: true }, nowNanos).startNanos,
        firstRow,
        cold: 0,
      }));
      passing = gather(results, refusals, report, signal);
      if (passing !== null) break;
      for (const [i, refused] of refusals.entries()) cold[i]! += refused.cold;
      firstRow += rows.rowCount;
    }
    if (passing !== null) {
      const reason = passing.code === 'FAILED_PRECONDITION' ? 'clock' : 'passing';
      metrics.refusedSamples.increase(total - report.count, { format, reason });
      throw passing;
    }
    // Only now: a sender sends the rows of a request that failed for a passing reason once more.
    for (const [i, count] of cold.entries()) {
      if (count > 0) this.#coldRefusals.note(namespaces[i]!, count);
    }
    if (report.count < total) metrics.writtenSamples.increase(total - report.count, { format });
    if (report.count > 0) {
      metrics.refusedSamples.increase(report.count, { format, reason: 'bad' });
      throw report.error(total);
    }
  }
}

/** Of one namespace: what the texts of refusals are made of, and what is counted. */
interface Refusals {
  readonly namespace: IngestNamespace;
  readonly decoder: WriteDecoder;
  readonly nowNanos: bigint;
  /** Cold writes would take rows from here on. */
  readonly coldFromNanos: bigint;
  /** Of the part, among all rows. */
  readonly firstRow: number;
  /** Rows that were refused and that cold writes would have taken. */
  cold: number;
}

/**
 * Series and time of a row, and why it was refused; the series is left out when its slot was given
 * to another since.
 */
function describeRow(
  rows: OutcomeRows,
  row: number,
  outcome: number,
  { namespace, decoder, nowNanos }: Refusals,
): string {
  const slot = rows.slots[row]!;
  const isSame = decoder.generation[slot] === rows.generations[row];
  const series = isSame ? seriesTextOf(decoder.tags(slot)) : '{…}';
  if (outcome === writeOutcome.refused) {
    return `${series}: ${(isSame && decoder.problem(slot)) || describeOutcome(outcome)}`;
  }
  const nanos = rows.timestamps[row]! * BigInt(rows.timeUnitNanos);
  const limit = describeLimit(nanos, outcome, namespace, nowNanos);
  return `${series} at ${secondsText(nanos)}: ${describeOutcome(outcome)}${limit}`;
}

/** By how much a row missed which limit of its namespace, in the words of the storage nodes. */
function describeLimit(
  nanos: bigint,
  outcome: number,
  namespace: IngestNamespace,
  nowNanos: bigint,
): string {
  const isPast = outcome === writeOutcome.tooFarPast;
  if (!isPast && outcome !== writeOutcome.tooFarFuture) return '';
  const side = isPast ? 'tooFarPast' : 'tooFarFuture';
  const { limitNanos, offByNanos } = missOfWindow(writeWindow(namespace, nowNanos), nanos, side);
  // The node looked at its clock a moment before.
  const offMillis = offByNanos > nanosPerMilli ? offByNanos / nanosPerMilli : 1n;
  const limitText = secondsText((limitNanos / nanosPerMilli) * nanosPerMilli);
  return `: off_by=${formatDurationNanos(offMillis * nanosPerMilli)}, ${isPast ? 'past' : 'future'}_limit=${limitText}`;
}

/** Unix seconds with as many digits as needed. */
function secondsText(nanos: bigint): string {
  const sign = nanos < 0n ? '-' : '';
  const size = nanos < 0n ? -nanos : nanos;
  const fraction = String(size % nanosPerSecond)
    .padStart(9, '0')
    .replace(/0+$/, '');
  return `${sign}${size / nanosPerSecond}${fraction === '' ? '' : `.${fraction}`}`;
}

/**
 * Puts bad rows of all namespaces into the report.
 * @returns the failure to answer with when any row may be sent again, else null
 * @throws whatever is no operating error; the signal's reason when aborted
 */
function gather(
  outcomes: readonly PromiseSettledResult<WriteResult>[],
  refusals: readonly Refusals[],
  report: BadRows,
  signal: AbortSignal,
): TsdbError | null {
  let passing: TsdbError | null = null;
  for (const [index, outcome] of outcomes.entries()) {
    if (outcome.status === 'rejected') {
      signal.throwIfAborted();
      if (!(outcome.reason instanceof TsdbError)) throw outcome.reason;
      passing = worse(passing, asPassing(outcome.reason));
    } else if (outcome.value.outcomes !== null) {
      passing = worse(passing, gatherRows(outcome.value, refusals[index]!, report));
    }
  }
  return passing;
}

function gatherRows(
  { outcomes, rows, errors }: WriteResult,
  refusals: Refusals,
  report: BadRows,
): TsdbError | null {
  const { namespace } = refusals;
  let unavailable = 0;
  let exhausted = 0;
  let clockAhead = 0;
  for (const [row, outcome] of outcomes!.entries()) {
    if (outcome === writeOutcome.written) continue;
    if (outcome === writeOutcome.resourceExhausted) exhausted += 1;
    else if (outcome === writeOutcome.clockAhead) clockAhead += 1;
    else if (isRetryable(outcome)) unavailable += 1;
    else {
      report.add(refusals.firstRow + row, () => describeRow(rows!, row, outcome, refusals));
      if (isCold(rows!, row, outcome, refusals)) refusals.cold += 1;
    }
  }
  const failed = unavailable + exhausted + clockAhead;
  if (failed === 0) return null;
  const [code, outcome] =
    clockAhead > 0
      ? (['FAILED_PRECONDITION', writeOutcome.clockAhead] as const)
      : unavailable > 0
        ? (['UNAVAILABLE', writeOutcome.unavailable] as const)
        : (['RESOURCE_EXHAUSTED', writeOutcome.resourceExhausted] as const);
  const reasons = errors.length === 0 ? '' : `: ${errors.slice(0, namedErrorsMax).join('; ')}`;
  return new TsdbError(
    code,
    `${failed} of ${outcomes!.length} samples were not written to namespace ` +
      `${namespace.name}: ${describeOutcome(outcome)}${reasons}`,
  );
}

/** Whether the namespace would have taken the row with cold writes. */
function isCold(
  rows: OutcomeRows,
  row: number,
  outcome: number,
  { namespace, coldFromNanos }: Refusals,
): boolean {
  if (outcome !== writeOutcome.tooFarPast || namespace.coldWrites) return false;
  return rows.timestamps[row]! * BigInt(rows.timeUnitNanos) >= coldFromNanos;
}

/** Errors of nodes that one answer repeats. */
const namedErrorsMax = 3;

/** Of two failures the one that asks for more patience. */
function worse(a: TsdbError | null, b: TsdbError | null): TsdbError | null {
  if (a === null || b === null) return a ?? b;
  return patience.indexOf(b.code) > patience.indexOf(a.code) ? b : a;
}

const patience: readonly string[] = [
  'BAD_REQUEST',
  'RESOURCE_EXHAUSTED',
  'UNAVAILABLE',
  'FAILED_PRECONDITION',
];

/** A namespace that vanished, or a deadline: nothing that dropping the samples would cure. */
function asPassing(error: TsdbError): TsdbError {
  if (error.code === 'RESOURCE_EXHAUSTED' || error.code === 'UNAVAILABLE') return error;
  if (error.code === 'BAD_REQUEST') return error;
  return new TsdbError('UNAVAILABLE', error.message, { cause: error });
}

/** Rows of a request are bad for good; the others were written. */
export class RowsRefused extends TsdbError {
  readonly writtenSamples: number;

  constructor(message: string, writtenSamples: number) {
    super('BAD_REQUEST', message);
    this.writtenSamples = writtenSamples;
  }
}

/** Bad rows that an answer to a write names; the rest is counted. */
const namedRowsMax = 20;

/**
 * Bad rows of one request: some by name, all by number. A row that two namespaces refuse counts
 * once.
 */
class BadRows {
  readonly #named: string[];
  readonly #rows = new Set<number>();
  count: number;

  constructor(problems: readonly string[]) {
    this.#named = problems.slice(0, namedRowsMax);
    this.count = problems.length;
  }

  /** @param text made only when there is room for it */
  add(row: number, text: () => string): void {
    if (this.#rows.has(row)) return;
    this.#rows.add(row);
    this.count += 1;
    if (this.#named.length < namedRowsMax) this.#named.push(text());
  }

  error(rowCount: number): RowsRefused {
    const rest = this.count - this.#named.length;
    const more = rest > 0 ? `; and ${rest} more` : '';
    const others = this.count < rowCount ? ', the others were written' : '';
    return new RowsRefused(
      `${this.count} of ${rowCount} samples were refused${others}: ${this.#named.join('; ')}${more}`,
      rowCount - this.count,
    );
  }
}

/** Longest text of a series in a message. */
const seriesTextMax = 300;

function seriesText(tags: readonly Tag[]): string {
  const text = `{${tags.map((tag) => `${tag.name}=${JSON.stringify(tag.value)}`).join(', ')}}`;
  return text.length > seriesTextMax ? `${text.slice(0, seriesTextMax)}…` : text;
}

/** Refused tags may be anything, also no text. */
function seriesTextOf(canonical: Uint8Array): string {
  try {
    return seriesText(decodeTags(canonical));
  } catch {
    return '{…}';
  }
}

/**
 * The coordinator's rules for a new series: tag rules, ID by the configured scheme, hash of the ID.
 */
export function verdictBy(scheme: IdScheme): (tags: Uint8Array) => SeriesVerdict {
  const idScheme = idSchemeCode[scheme];
  const explicitId = new Uint8Array(0);
  return (canonical) => {
    const tags = decodeTags(canonical);
    const problem = tagsProblem(tags);
    if (problem !== null) return { idScheme, explicitId, idHash: 0, problem };
    const idHash = murmur3(Buffer.from(idOfTags(tags, scheme)));
    return { idScheme, explicitId, idHash, problem: null };
  };
}
