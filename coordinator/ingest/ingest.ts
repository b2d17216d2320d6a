/**
 * Writes on their way in: a body becomes rows through the write decoder, every ready namespace gets
 * them, and what came of each row is put into one answer.
 *
 *     all rows acknowledged                     → nothing
 *     some rows bad, the others acknowledged    → BAD_REQUEST that names the bad ones
 *     any row failed for a passing reason       → RESOURCE_EXHAUSTED or UNAVAILABLE: send it all again
 *     nodes refused what our clock says         → FAILED_PRECONDITION: the same, once that is mended
 */
import { JsonRowText, type ReadRow } from '#engine/json_lines/rows/text.ts';
import { JsonLineText } from '#engine/json_lines/text.ts';
import type { LabelSeries } from '#engine/json_lines/series.ts';
import { exemplarRowsOf, type ToldExemplar } from '#engine/write_decoder/told_exemplars.ts';
import { metadataOf, type ToldMetadata } from '#engine/write_decoder/told_metadata.ts';
import type { OtlpReader } from '#engine/otlp/reader.ts';
import type { OtlpPart } from '#engine/otlp/points/types.ts';
import type {
  BadExemplar,
  BadHistogram,
  RemoteWriteVersion,
  WriteDecoder,
  WriteDecoderHistograms,
  WriteDecoderRows,
} from '#engine/write_decoder/write_decoder.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Clock } from '#lib/env/env.ts';
import { pathIdsFormatLevel, typedRowsFormatLevel } from '#lib/format_level.ts';
import type { Log } from '#lib/log.ts';
import { nanosPerMilli } from '#lib/time.ts';
import { Turns, type Work } from '#lib/turns/turns.ts';
import { encodeTags, legacyTagRules, type Tag, type TagRules, tagsProblem } from '#lib/tags.ts';
import type { ExemplarWriter } from '../companions/exemplar_writer.ts';
import type { MetadataWriter } from '../companions/metadata_writer.ts';
import {
  type Duplicates,
  type HaPairs,
  noDuplicates,
  noneRefused,
  type TakenBody,
} from './ha_pairs.ts';
import { type IngestMessage, Messages } from './messages.ts';
import type { IngestMetrics } from './writing/metrics.ts';
import type { IngestNamespaces, WriteOfKind } from './writing/namespaces.ts';
import {
  bringsPaths,
  lineFormats,
  lineUnits,
  type StreamFormat,
  type TextFormat,
} from './line_formats.ts';
import { type LinePart, LineText } from './line_text.ts';
import { type BodyRows, partEnd, partsOfBody } from './writing/parts.ts';
import {
  type DroppedRoute,
  PartWriter,
  type WriteSession,
  Writing,
} from './writing/part_writer.ts';
import { type PointBody, PointRows } from './point_series.ts';
import { type TagMapping, TagMappings } from './tag_mapping.ts';
import { PointsOfRows, type RefusedPoints } from './points_of_rows.ts';
import {
  BadRows,
  RowsRefused,
  namedRowsMax,
  secondsText,
  seriesText,
  seriesTextOf,
  type Written,
} from './writing/refusals.ts';

/** Where goes what comes with samples. */
export interface IngestNotes {
  readonly exemplars: Pick<ExemplarWriter, 'write'>;
  readonly metadata: Pick<MetadataWriter, 'note'>;
}

/** How often a body waits for elections, each time of all of its clusters. */
const electionsOfBodyMax = 8;
/** What exemplars have more than the samples of their request. */
const exemplarsMillisMax = 250;

export interface IngestRow {
  /** In any order; checked here. */
  readonly tags: readonly Tag[];
  readonly timestampNanos: bigint;
  readonly value: number;
}

/** About what it takes to check and encode a row, in units of work (lib/turns/turns.ts). */
const rowUnits = 200;

export interface IngestRows {
  readonly floats: readonly IngestRow[];
  readonly messages: readonly IngestMessage[];
}

/** Formats of series with points. */
export type PointFormat = 'datadog' | 'opentsdb';

/** How the times of lines are meant. */
export interface LineTimes {
  /** Where the format does not say it. */
  readonly unitNanos: bigint;
  /** Of lines without one; null for now, cut to the unit. */
  readonly defaultNanos: bigint | null;
}

interface EncodedRow {
  readonly tags: Uint8Array;
  readonly timestampNanos: bigint;
  readonly value: number;
}

export class Ingest {
  readonly #decoder: WriteDecoder;
  readonly #writer: PartWriter;
  readonly #session: WriteSession;
  readonly #messages: Messages;
  readonly #metrics: IngestMetrics;
  readonly #notes: IngestNotes;
  readonly #clock: Pick<Clock, 'nowNanos' | 'monotonicMillis' | 'sleep'>;
  readonly #tagRules: TagRules;
  readonly #pairs: Pick<HaPairs, 'taken'> | null;
  readonly tagMappings: TagMappings;

  /**
   * @param dropped null where no rules drop rows
   * @param pairs null where pairs of Prometheus are not taken
   * @param tagRules those of the decoder's verdicts
   */
  constructor(
    decoder: WriteDecoder,
    session: WriteSession,
    namespaces: IngestNamespaces,
    notes: IngestNotes,
    metrics: IngestMetrics,
    clock: Pick<Clock, 'nowNanos' | 'monotonicMillis' | 'deadline' | 'sleep'>,
    log: Log,
    dropped: DroppedRoute | null = null,
    tagRules: TagRules = legacyTagRules,
    pairs: Pick<HaPairs, 'taken'> | null = null,
  ) {
    this.#pairs = pairs;
    this.tagMappings = new TagMappings(decoder, tagRules);
    this.#tagRules = tagRules;
    this.#decoder = decoder;
    this.#session = session;
    this.#messages = new Messages(decoder, namespaces, clock, tagRules);
    this.#notes = notes;
    this.#metrics = metrics;
    this.#clock = clock;
    this.#writer = new PartWriter({ decoder, session, namespaces, metrics, clock, log, dropped });
  }

  /**
   * Writes a remote-write body.
   * @param body snappy block; not needed after the first await
   * @param mapping null where tags stay as they are
   * @throws {TsdbError} as in the table above
   */
  async remoteWrite(
    body: Uint8Array,
    version: RemoteWriteVersion,
    signal: AbortSignal,
    mapping: TagMapping | null = null,
  ): Promise<Written> {
    const pairs = this.#pairs;
    let held = body;
    const decodeBody = (): WriteDecoderRows => this.#decoder.remoteWrite(held, version);
    const decode = mapping === null ? decodeBody : () => mapping.body(decodeBody);
    let taken: TakenBody | Promise<void> =
      pairs === null
        ? { rows: decode(), duplicates: noDuplicates, refused: noneRefused }
        : pairs.taken(decode, signal);
    for (let elections = 0; taken instanceof Promise; elections++) {
      if (elections === electionsOfBodyMax) {
        throw new TsdbError('UNAVAILABLE', 'which replicas are taken changes all the time');
      }
      // The sender's room is used for others meanwhile.
      if (elections === 0) held = new Uint8Array(body);
      await taken;
      taken = pairs!.taken(decode, signal);
    }
    return this.#writeBody(taken, body.length, version, signal);
  }

  async #writeBody(
    { rows: decoded, duplicates, refused }: TakenBody,
    bodyBytes: number,
    version: RemoteWriteVersion,
    signal: AbortSignal,
  ): Promise<Written> {
    const kind = this.#writer.of(null);
    const { samples, histograms } = this.#writable(decoded);
    const report = new BadRows();
    const asked = {
      samples: samples.rowCount + refused.samples,
      histograms: countOf(histograms) + refused.histograms,
      exemplars: 0,
    };
    if (refused.samples > 0) report.addSamples(refused.samples, [refused.problem]);
    if (refused.histograms > 0) report.addHistograms(refused.histograms, [refused.problem]);
    if (histograms !== null) {
      const texts = histograms.bad.map((histogram) => badHistogramText(histogram, this.#decoder));
      report.addHistograms(histograms.badCount, texts);
    }
    const parts = partsOfBody(bodyBytes, samples, histograms, this.#decoder);
    const format = version === 1 ? 'remote_write' : 'remote_write_v2';
    const { exemplars, firstNameless, metadata } = decoded;
    if (firstNameless !== null) report.noteNameless(seriesTextOf(firstNameless));
    if (metadata !== null) {
      const problems = this.#notes.metadata.note(metadata, version, this.#decoder);
      report.addOthers(problems.length, problems);
    }
    if (exemplars !== null && version === 2) {
      report.addOthers(
        exemplars.badCount,
        exemplars.bad.map((bad) => badExemplarText(bad, this.#decoder)),
      );
    }
    // Samples are on their way when this comes back; the decoder's columns hold until then.
    const writing = this.#write([{ ...kind, parts }], asked, report, format, signal);
    const exemplarsWriting =
      exemplars === null ? null : this.#notes.exemplars.write(exemplars, this.#decoder);
    try {
      await writing;
    } catch (error) {
      if (!(error instanceof RowsRefused)) throw error;
      const exemplarCount = await this.#soon(exemplarsWriting);
      const written = { ...error.written, exemplars: exemplarCount };
      throw new RowsRefused(error.message, withDuplicates(written, duplicates));
    }
    const written = { ...asked, exemplars: await this.#soon(exemplarsWriting) };
    return withDuplicates(written, duplicates);
  }

  /** Exemplars that are acknowledged within a moment: nobody's samples wait longer for them. */
  async #soon(writing: Promise<number> | null): Promise<number> {
    if (writing === null) return 0;
    const wait = new AbortController();
    const late = this.#clock.sleep(exemplarsMillisMax, wait.signal).then(
      () => 0,
      () => 0,
    );
    try {
      return await Promise.race([writing, late]);
    } finally {
      wait.abort();
    }
  }

  /** Without histograms and start times while nodes of an earlier release may be asked to keep them. */
  #writable(rows: WriteDecoderRows): {
    readonly samples: WriteDecoderRows;
    readonly histograms: WriteDecoderHistograms | null;
  } {
    const { histograms } = rows;
    if (this.#session.formatLevel >= typedRowsFormatLevel) return { samples: rows, histograms };
    if (histograms !== null) this.#metrics.droppedHistograms.increase(countOf(histograms));
    return { samples: { ...rows, startNanos: null }, histograms: null };
  }

  /** Preparation of rows that gives way to others. */
  begin(signal: AbortSignal): Work {
    return Turns.of(this.#clock).begin(signal, 'write');
  }

  /**
   * Writes rows of another format.
   * @param problems of rows that were left out before; they make the answer BAD_REQUEST
   * @param named the only namespace that they go to; null for all that take them
   */
  async rows(
    { floats, messages }: IngestRows,
    problems: readonly string[],
    named: string | null,
    work: Work,
  ): Promise<void> {
    const report = new BadRows();
    for (const problem of problems) report.addSample(problem);
    const writes: WriteOfKind[] = [];
    if (messages.length > 0) {
      writes.push(await this.#messages.encoded(messages, named, report, work));
    }
    if (floats.length > 0 || messages.length === 0) {
      writes.push(await this.#floats(floats, named, report, work));
    }
    const samples = floats.length + messages.length + problems.length;
    const asked = { samples, histograms: 0, exemplars: 0 };
    await this.#write(writes, asked, report, 'json', work.signal);
  }

  /**
   * Writes lines of a body as it is decoded, a part before the next one is read.
   * @param chunks cut anywhere
   * @param mapping null where tags stay as they are
   * @throws {RowsRefused} when lines or rows are bad; the others are written
   */
  async lines(
    format: TextFormat,
    chunks: AsyncIterable<Uint8Array>,
    { unitNanos, defaultNanos }: LineTimes,
    work: Work,
    mapping: TagMapping | null = null,
  ): Promise<void> {
    if (bringsPaths(format)) this.#checkLevel();
    const kind = this.#writer.of(null);
    const nowNanos = defaultNanos ?? (this.#clock.nowNanos() / unitNanos) * unitNanos;
    const { code, name } = lineFormats[format];
    const reading = { format: code, unitNanos, nowNanos };
    const asked = { samples: 0, histograms: 0, exemplars: 0 };
    const writing = new Writing(asked, new BadRows(), name);
    const text = new LineText(this.#decoder);
    const write = async (): Promise<void> => {
      for (let part = text.read(reading); part !== null; part = text.read(reading)) {
        const { badLines, problems } = part;
        const rows = part.rows === null ? null : (mapping?.rows(part.rows) ?? part.rows);
        asked.samples += (rows?.rowCount ?? 0) + badLines;
        writing.report.addSamples(badLines, problems);
        const done = rows === null ? null : this.#writer.write(writing, [rows], kind, work.signal);
        text.advance();
        await done;
        if (work.spend(lineUnits * ((rows?.rowCount ?? 0) + badLines + 1))) await work.pause();
      }
    };
    for await (const chunk of chunks) {
      text.add(chunk);
      if (text.isEnough) await write();
    }
    text.end();
    await write();
    this.#writer.end(writing);
  }

  get nowNanos(): bigint {
    return this.#clock.nowNanos();
  }

  /** Takes what stood beside lines; they do not fail with it. */
  note(families: readonly ToldMetadata[], exemplars: readonly ToldExemplar[]): void {
    const metadata = metadataOf(families);
    if (metadata !== null) this.#notes.metadata.note(metadata, 1, this.#decoder);
    try {
      const rows = exemplarRowsOf(exemplars, this.#decoder);
      if (rows !== null) void this.#notes.exemplars.write(rows, this.#decoder);
    } catch (error) {
      // No room for series.
      if (!(error instanceof TsdbError)) throw error;
    }
  }

  /**
   * Writes exported lines of JSON as they are decoded, a part before the next one is read.
   * @param series of the same decoder
   * @param chunks cut anywhere
   * @throws {RowsRefused} when lines or rows are bad; the others are written
   */
  async jsonLines(
    series: LabelSeries,
    chunks: AsyncIterable<Uint8Array>,
    work: Work,
  ): Promise<void> {
    const kind = this.#writer.of(null);
    const asked = { samples: 0, histograms: 0, exemplars: 0 };
    const writing = new Writing(asked, new BadRows(), 'json_lines');
    const text = new JsonLineText(series);
    await eachPart(text, chunks, async ({ rows, badLines, problems, units }) => {
      asked.samples += (rows?.rowCount ?? 0) + badLines;
      writing.report.addSamples(badLines, problems);
      if (rows !== null) await this.#writer.write(writing, [rows], kind, work.signal);
      if (work.spend(units)) await work.pause();
    });
    this.#writer.end(writing);
  }

  /**
   * Writes rows of lines of JSON as they are decoded, a part before the next one is read.
   * @param series of the same decoder
   * @param readRow with checked tags, by which lines are read that are not as most
   * @param chunks cut anywhere
   * @param named the only namespace that they go to; null for all that take them
   * @throws {RowsRefused} when lines or rows are bad; the others are written
   */
  async jsonRows(
    series: LabelSeries,
    readRow: ReadRow<IngestMessage>,
    chunks: AsyncIterable<Uint8Array>,
    named: string | null,
    work: Work,
  ): Promise<void> {
    const asked = { samples: 0, histograms: 0, exemplars: 0 };
    const report = new BadRows();
    const writing = new Writing(asked, report, 'json');
    const text = new JsonRowText(series, readRow);
    await eachPart(text, chunks, async ({ rows, messages, badLines, problems, units }) => {
      asked.samples += (rows?.rowCount ?? 0) + messages.length + badLines;
      report.addSamples(badLines, problems);
      if (rows !== null) {
        const kind = this.#writer.of(named);
        if (kind.namespaces.length === 0) this.#refuseFloats(rows, named!, report);
        else await this.#writer.write(writing, [rows], kind, work.signal);
      }
      if (messages.length > 0) {
        const encoded = await this.#messages.encoded(messages, named, report, work);
        for (const { part: some, ...kind } of partsOf([encoded])) {
          await this.#writer.write(writing, some, kind, work.signal);
        }
      }
      if (work.spend(units)) await work.pause();
    });
    this.#writer.end(writing);
  }

  /**
   * Writes series with their points.
   * @param onRow is told of each row that was refused, by its place among all points, and why
   * @throws {RowsRefused} when points are bad; the others are written
   */
  async points(
    format: PointFormat,
    { series, problems }: PointBody,
    work: Work,
    onRow?: (row: number, text: () => string) => void,
  ): Promise<void> {
    const kind = this.#writer.of(null);
    const report = new BadRows(onRow);
    report.addSamples(problems.length, problems);
    const asked = { samples: problems.length, histograms: 0, exemplars: 0 };
    for (const { points } of series) asked.samples += points.length;
    const writing = new Writing(asked, report, format);
    const parts = new PointRows(this.#decoder, series);
    for (let rows = parts.next(); rows !== null; rows = parts.next()) {
      const units = rowUnits * rows.rowCount;
      await this.#writer.write(writing, [rows], kind, work.signal);
      if (work.spend(units)) await work.pause();
    }
    this.#writer.end(writing);
  }

  #refuseFloats({ rowCount, slots }: WriteDecoderRows, named: string, report: BadRows): void {
    const problem = noFloatsText(named);
    const texts: string[] = [];
    for (let row = 0; row < rowCount && row < namedRowsMax; row++) {
      texts.push(`${seriesTextOf(this.#decoder.tags(slots[row]!))}: ${problem}`);
    }
    report.addSamples(rowCount, texts);
  }

  /**
   * Writes a body of OTLP, a part before the next one is read.
   * @param reader of the same decoder
   * @returns the points that are refused for good; the others are written
   * @throws {TsdbError} BAD_REQUEST when it cannot be read, then nothing is written; else for what may be sent again
   */
  async otlp(reader: OtlpReader, body: Uint8Array, work: Work): Promise<RefusedPoints> {
    const kind = this.#writer.of(null);
    const asked = { samples: 0, histograms: 0, exemplars: 0 };
    const points = new PointsOfRows();
    const writing = new Writing(asked, new BadRows((row) => points.refuse(row)), 'otlp');
    const pause = async (units: number): Promise<void> => {
      if (work.spend(units)) await work.pause();
    };
    const parts = reader.open(body);
    for (let part = parts.next(); part !== null; part = parts.next()) {
      if (part === 'unchecked') await parts.check(pause);
      else {
        await this.#writePoints(part, points, writing, kind, work.signal);
        await pause(part.units);
      }
    }
    try {
      this.#writer.end(writing);
      return { count: 0, message: '' };
    } catch (error) {
      if (!(error instanceof RowsRefused)) throw error;
      return { count: points.refusedCount, message: error.message };
    }
  }

  async #writePoints(
    part: OtlpPart,
    points: PointsOfRows,
    writing: Writing,
    kind: Omit<WriteOfKind, 'parts'>,
    signal: AbortSignal,
  ): Promise<void> {
    const { refusedCount, problems } = part;
    const { samples, histograms } = this.#writable(part.rows);
    const { exemplars, metadata } = part.rows;
    const { asked } = writing;
    asked.samples += samples.rowCount + refusedCount;
    asked.histograms += countOf(histograms);
    writing.report.addSamples(refusedCount, problems);
    points.begin(part, writing.firstRow);
    if (metadata !== null) this.#notes.metadata.note(metadata, 1, this.#decoder);
    const rows = histograms === null ? [samples] : [samples, histograms];
    const done = this.#writer.write(writing, rows, kind, signal);
    if (exemplars !== null) void this.#notes.exemplars.write(exemplars, this.#decoder);
    await done;
  }

  /**
   * Writes a part of lines of senders that are not answered.
   * @throws {RowsRefused} when lines or rows are bad; the others are written
   * @throws {TsdbError} when any row may be sent again
   */
  async linePart(
    format: StreamFormat,
    { rows, badLines, problems }: LinePart,
    signal: AbortSignal,
  ): Promise<void> {
    const samples = (rows?.rowCount ?? 0) + badLines;
    const asked = { samples, histograms: 0, exemplars: 0 };
    const writing = new Writing(asked, new BadRows(), lineFormats[format].name);
    writing.report.addSamples(badLines, problems);
    if (rows !== null) {
      if (bringsPaths(format)) this.#checkLevel();
      const kind = this.#writer.of(null);
      await this.#writer.write(writing, [rows], kind, signal);
    }
    this.#writer.end(writing);
  }

  /** @throws {TsdbError} UNAVAILABLE while nodes of an earlier release may be asked for what they do not know */
  #checkLevel(): void {
    if (this.#session.formatLevel >= pathIdsFormatLevel) return;
    throw new TsdbError(
      'UNAVAILABLE',
      'lines of Carbon are taken when the upgrade to this release is finished: tsdbctl upgrade finish',
    );
  }

  async #floats(
    rows: readonly IngestRow[],
    named: string | null,
    report: BadRows,
    work: Work,
  ): Promise<WriteOfKind> {
    const kind = this.#writer.of(named);
    if (kind.namespaces.length === 0) {
      for (const { tags } of rows) {
        report.addSample(`${seriesText(tags)}: ${noFloatsText(named!)}`);
      }
      return { ...kind, parts: [] };
    }
    const good: EncodedRow[] = [];
    for (const { tags, timestampNanos, value } of rows) {
      // Tags with one name twice have no canonical layout, so they are refused before the write
      // decoder.
      const problem = tagsProblem(tags, this.#tagRules);
      if (problem === null) good.push({ tags: encodeTags(tags), timestampNanos, value });
      else report.addSample(`${seriesText(tags)}: ${problem}`);
      if (work.spend(rowUnits)) await work.pause();
    }
    return { ...kind, parts: this.#decoded(good) };
  }

  /** Rows by the write decoder, a part when it is asked for. */
  *#decoded(rows: readonly EncodedRow[]): Iterable<readonly BodyRows[]> {
    for (let first = 0, past = 0; first < rows.length; first = past) {
      past = partEnd(first, rows.length, (row) => rows[row]!.tags.length);
      yield [this.#decoder.rows(rows.slice(first, past))];
    }
  }

  /**
   * Writes a body, part by part, so that no body holds up others for long.
   * @param asked what the body has, with what `report` says of it already
   */
  async #write(
    kinds: readonly WriteOfKind[],
    asked: Written,
    report: BadRows,
    format: string,
    signal: AbortSignal,
  ): Promise<void> {
    const writing = new Writing(asked, report, format);
    for (const { part, ...kind } of partsOf(kinds)) {
      await this.#writer.write(writing, part, kind, signal);
    }
    this.#writer.end(writing);
  }
}

/** Takes what was read of a text as it comes, a part before the next one is read. */
async function eachPart<Part>(
  text: { add(chunk: Uint8Array): void; end(): void; read(): Part | null },
  chunks: AsyncIterable<Uint8Array>,
  take: (part: Part) => Promise<void>,
): Promise<void> {
  const takeAll = async (): Promise<void> => {
    for (let part = text.read(); part !== null; part = text.read()) await take(part);
  };
  for await (const chunk of chunks) {
    text.add(chunk);
    await takeAll();
  }
  text.end();
  await takeAll();
}

/** Why a namespace with a schema does not take a number. */
function noFloatsText(namespace: string): string {
  return `value: not an object, and namespace ${namespace} has a schema`;
}

/** The parts of all kinds, one after the other. */
function* partsOf(
  kinds: readonly WriteOfKind[],
): Iterable<Omit<WriteOfKind, 'parts'> & { part: readonly BodyRows[] }> {
  for (const { parts, ...kind } of kinds) for (const part of parts) yield { ...kind, part };
}

/** Prometheus takes numbers that are lower than its own for a failure. */
function withDuplicates(written: Written, duplicates: Duplicates): Written {
  return {
    samples: written.samples + duplicates.samples,
    histograms: written.histograms + duplicates.histograms,
    exemplars: written.exemplars + duplicates.exemplars,
  };
}

function countOf(histograms: WriteDecoderHistograms | null): number {
  return histograms === null ? 0 : histograms.rowCount + histograms.badCount;
}

function badExemplarText({ slot, problem }: BadExemplar, decoder: WriteDecoder): string {
  return `exemplar of ${seriesTextOf(decoder.tags(slot))}: ${problem}`;
}

function badHistogramText(
  { slot, timestampMillis, problem }: BadHistogram,
  decoder: WriteDecoder,
): string {
  const time = secondsText(timestampMillis * nanosPerMilli);
  return `${seriesTextOf(decoder.tags(slot))} at ${time}: ${problem}`;
}
