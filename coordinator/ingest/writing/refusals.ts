/** What came of the rows of a request, put into one answer, and the words for those that were refused. */
import {
  describeOutcome,
  isRetryable,
  type OutcomeRows,
  writeOutcome,
  type WriteResult,
} from '#cluster/session/outcomes/write_result.ts';
import type { WriteDecoder } from '#engine/write_decoder/write_decoder.ts';
import type { Clock } from '#lib/env/env.ts';
import { missOfWindow, writeWindow } from '#lib/block_time.ts';
import { TsdbError } from '#lib/errors.ts';
import { decodeTags, type Tag } from '#lib/tags.ts';
import { formatDurationNanos, nanosPerMilli, nanosPerSecond } from '#lib/time.ts';
import type { IngestNamespace } from './namespaces.ts';

/** Rows of a request, or of those that were written. */
export interface Written {
  readonly samples: number;
  readonly histograms: number;
  readonly exemplars: number;
}

/** Rows of one kind that one namespace was asked to write. */
export interface WriteOfPart {
  readonly namespace: IngestNamespace;
  /** The longest retention of those that are asked to take these rows. */
  readonly longestNanos: bigint;
  readonly isOfHistograms: boolean;
  /** Of the part, among all rows of the request. */
  readonly firstRow: number;
  /** Places of the rows in the part; null for all of it. */
  readonly places: Uint32Array | null;
  readonly result: Promise<WriteResult>;
}

/** What the texts of refusals are made of. */
interface Texts {
  readonly decoder: WriteDecoder;
  readonly nowNanos: bigint;
  /** Several were asked to take a row. */
  readonly areSeveral: boolean;
}

/**
 * Waits for all of them, and puts bad rows into the report.
 * @returns rows by namespace that cold writes would have taken; or the failure to answer with when any row may be sent
 *   again
 * @throws whatever is no operating error; the signal's reason when aborted
 */
export async function gather(
  writes: readonly WriteOfPart[],
  decoder: WriteDecoder,
  clock: Pick<Clock, 'nowNanos'>,
  report: BadRows,
  signal: AbortSignal,
): Promise<ReadonlyMap<IngestNamespace, number> | TsdbError> {
  const outcomes = await Promise.allSettled(writes.map(({ result }) => result));
  const areSeveral = new Set(writes.map(({ namespace }) => namespace.name)).size > 1;
  const texts = { decoder, nowNanos: clock.nowNanos(), areSeveral };
  const cold = new Map<IngestNamespace, number>();
  let passing: TsdbError | null = null;
  for (const [index, outcome] of outcomes.entries()) {
    const write = writes[index]!;
    if (outcome.status === 'rejected') {
      signal.throwIfAborted();
      if (!(outcome.reason instanceof TsdbError)) throw outcome.reason;
      passing = worse(passing, asPassing(outcome.reason));
    } else if (outcome.value.outcomes !== null) {
      passing = worse(passing, gatherRows(outcome.value, write, texts, report));
      const { namespace } = write;
      const count = coldRows(outcome.value, namespace, texts.nowNanos);
      cold.set(namespace, (cold.get(namespace) ?? 0) + count);
    }
  }
  return passing ?? cold;
}

/** Rows that were refused as too old and that the namespace would have taken with cold writes. */
function coldRows(
  { outcomes, rows }: WriteResult,
  namespace: IngestNamespace,
  nowNanos: bigint,
): number {
  if (namespace.coldWrites) return 0;
  const { startNanos } = writeWindow({ ...namespace, coldWrites: true }, nowNanos);
  const unit = BigInt(rows!.timeUnitNanos);
  let count = 0;
  for (const [row, outcome] of outcomes!.entries()) {
    if (outcome !== writeOutcome.tooFarPast) continue;
    if (rows!.timestamps[row]! * unit >= startNanos) count += 1;
  }
  return count;
}

/**
 * Series and time of a row, and why it was refused; the series is left out when its slot was given
 * to another since.
 */
function describeRow(
  rows: OutcomeRows,
  row: number,
  outcome: number,
  namespace: IngestNamespace,
  { decoder, nowNanos, areSeveral }: Texts,
): string {
  // The others may have taken it.
  const where = areSeveral ? ` (namespace ${namespace.name})` : '';
  const slot = rows.slots[row]!;
  const isSame = decoder.generation[slot] === rows.generations[row];
  const series = isSame ? seriesTextOf(decoder.tags(slot)) : '{…}';
  if (outcome === writeOutcome.refused) {
    return `${series}: ${(isSame && decoder.problem(slot)) || describeOutcome(outcome)}${where}`;
  }
  const nanos = rows.timestamps[row]! * BigInt(rows.timeUnitNanos);
  const limit = describeLimit(nanos, outcome, namespace, nowNanos);
  return `${series} at ${secondsText(nanos)}: ${describeOutcome(outcome)}${limit}${where}`;
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
export function secondsText(nanos: bigint): string {
  const sign = nanos < 0n ? '-' : '';
  const size = nanos < 0n ? -nanos : nanos;
  const fraction = String(size % nanosPerSecond)
    .padStart(9, '0')
    .replace(/0+$/, '');
  return `${sign}${size / nanosPerSecond}${fraction === '' ? '' : `.${fraction}`}`;
}

/** @returns the failure when any row may be sent again */
function gatherRows(
  { outcomes, rows, errors }: WriteResult,
  write: WriteOfPart,
  texts: Texts,
  report: BadRows,
): TsdbError | null {
  const { namespace, isOfHistograms, firstRow, places } = write;
  let unavailable = 0;
  let exhausted = 0;
  let clockAhead = 0;
  for (const [row, outcome] of outcomes!.entries()) {
    if (outcome === writeOutcome.written) continue;
    if (outcome === writeOutcome.resourceExhausted) exhausted += 1;
    else if (outcome === writeOutcome.clockAhead) clockAhead += 1;
    else if (isRetryable(outcome)) unavailable += 1;
    else if (!isKeptElsewhere(rows!, row, outcome, write, texts)) {
      const text = (): string => describeRow(rows!, row, outcome, namespace, texts);
      report.addRow(firstRow + (places?.[row] ?? row), isOfHistograms, text);
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

/**
 * Past the retention of a namespace a row is nobody's loss where another one keeps rows longer: that takes it, or refuses it by
 * itself.
 */
function isKeptElsewhere(
  { timestamps, timeUnitNanos }: OutcomeRows,
  row: number,
  outcome: number,
  { namespace: { retentionNanos }, longestNanos }: WriteOfPart,
  { nowNanos }: Texts,
): boolean {
  if (outcome !== writeOutcome.tooFarPast || retentionNanos === longestNanos) return false;
  return timestamps[row]! * BigInt(timeUnitNanos) < nowNanos - retentionNanos;
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
  readonly written: Written;

  constructor(message: string, written: Written) {
    super('BAD_REQUEST', message);
    this.written = written;
  }
}

/** Bad rows that an answer to a write names; the rest is counted. */
export const namedRowsMax = 20;

/**
 * Bad rows of one request: some by name, all by number. A row that two namespaces refuse counts
 * once.
 */
export class BadRows {
  readonly #onRow: (row: number, text: () => string) => void;
  readonly #named: string[] = [];
  readonly #rows = new Set<number>();
  #samples = 0;
  #histograms = 0;
  readonly #others: string[] = [];
  #otherCount = 0;
  #firstNameless = '';

  /** @param onRow is told of each row that was sent and refused, by its place among all rows of the request, and why */
  constructor(onRow: (row: number, text: () => string) => void = () => {}) {
    this.#onRow = onRow;
  }

  /** Both. */
  get count(): number {
    return this.#samples + this.#histograms;
  }

  /** A sample that was not sent. */
  addSample(text: string): void {
    this.#samples += 1;
    this.#name(() => text);
  }

  /** Samples, or whole lines, that were not sent. @param texts of the first ones */
  addSamples(count: number, texts: readonly string[]): void {
    this.#samples += count;
    for (const text of texts) this.#name(() => text);
  }

  /** Whether one more is named, or counted alone. */
  get isNaming(): boolean {
    return this.#named.length < namedRowsMax;
  }

  /** Histograms that were not sent. @param texts of the first ones */
  addHistograms(count: number, texts: readonly string[]): void {
    this.#histograms += count;
    for (const text of texts) this.#name(() => text);
  }

  /** Exemplars, or metadata. @param texts of the first ones */
  addOthers(count: number, texts: readonly string[]): void {
    this.#otherCount += count;
    this.#others.push(...texts.slice(0, namedRowsMax - this.#others.length));
  }

  /** Series without a metric name are not kept, so one of them is told for all. */
  noteNameless(text: string): void {
    this.#firstNameless = text;
  }

  get otherCount(): number {
    return this.#otherCount;
  }

  /** @param text made only when there is room for it */
  addRow(row: number, isHistogram: boolean, text: () => string): void {
    if (this.#rows.has(row)) return;
    this.#rows.add(row);
    this.#onRow(row, text);
    if (isHistogram) this.#histograms += 1;
    else this.#samples += 1;
    this.#name(text);
  }

  #name(text: () => string): void {
    if (this.#named.length < namedRowsMax) this.#named.push(text());
  }

  /** Exemplars are none: what became of them is known later. */
  writtenOf({ samples, histograms }: Written): Written {
    return {
      samples: samples - this.#samples,
      histograms: histograms - this.#histograms,
      exemplars: 0,
    };
  }

  /** @param asked what the request had */
  error(asked: Written): RowsRefused {
    const rowCount = asked.samples + asked.histograms;
    const rest = this.count - this.#named.length;
    const more = rest > 0 ? `; and ${rest} more` : '';
    const others = this.count < rowCount ? ', the others were written' : '';
    const parts = [
      ...(this.count === 0
        ? []
        : [
            `${this.count} of ${rowCount} samples were refused${others}: ${this.#named.join('; ')}${more}`,
          ]),
      ...this.#otherTexts(),
      ...(this.#firstNameless === '' ? [] : [`the first without a name is ${this.#firstNameless}`]),
    ];
    return new RowsRefused(parts.join('; '), this.writtenOf(asked));
  }

  #otherTexts(): string[] {
    if (this.#otherCount === 0) return [];
    const rest = this.#otherCount - this.#others.length;
    const more = rest > 0 ? `; and ${rest} more` : '';
    return [`of what came with samples was refused: ${this.#others.join('; ')}${more}`];
  }
}

/** Longest text of a series in a message. */
const seriesTextMax = 300;

export function seriesText(tags: readonly Tag[]): string {
  const text = `{${tags.map((tag) => `${tag.name}=${JSON.stringify(tag.value)}`).join(', ')}}`;
  return text.length > seriesTextMax ? `${text.slice(0, seriesTextMax)}…` : text;
}

/** Refused tags may be anything, also no text. */
export function seriesTextOf(canonical: Uint8Array): string {
  try {
    return seriesText(decodeTags(canonical));
  } catch {
    return '{…}';
  }
}
