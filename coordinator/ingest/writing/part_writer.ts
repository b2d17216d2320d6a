/** Rows on their way to every namespace that takes them: what is written at once, and what came of it. */
import type { RegistryVersion } from '#cluster/namespaces/samples.ts';
import type { Session } from '#cluster/session/session.ts';
import type { WriteDecoder } from '#engine/write_decoder/write_decoder.ts';
import type { Clock } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { ColdRefusals } from './cold_refusals.ts';
import { type DividedRows, type DroppedRows, pickedRows } from './dropped_rows.ts';
import type { IngestMetrics } from './metrics.ts';
import {
  type IngestNamespace,
  type IngestNamespaces,
  namedOf,
  type WriteOfKind,
} from './namespaces.ts';
import type { BodyRows } from './parts.ts';
import { type BadRows, gather, type WriteOfPart, type Written } from './refusals.ts';

/** The part of the session that ingestion needs. */
export type WriteSession = Pick<Session, 'write' | 'formatLevel'>;

/** Where rows go that rules drop. */
export interface DroppedRoute {
  readonly rows: Pick<DroppedRows, 'divided'>;
  /** Which is read for windows alone; null while there is none. */
  readonly namespace: () => IngestNamespace | null;
}

/** What came of a body so far. */
export class Writing {
  /** What the body has, as far as it was read. */
  readonly asked: { -readonly [Kind in keyof Written]: Written[Kind] };
  readonly report: BadRows;
  readonly format: string;
  readonly cold: Map<IngestNamespace, number> = new Map();
  firstRow = 0;

  constructor(asked: Written, report: BadRows, format: string) {
    this.asked = asked;
    this.report = report;
    this.format = format;
  }
}

export interface PartWriterOptions {
  readonly decoder: WriteDecoder;
  readonly session: WriteSession;
  readonly namespaces: IngestNamespaces;
  readonly metrics: IngestMetrics;
  readonly clock: Pick<Clock, 'monotonicMillis' | 'nowNanos' | 'deadline' | 'sleep'>;
  readonly log: Log;
  /** Null where no rules drop rows. */
  readonly dropped: DroppedRoute | null;
}

export class PartWriter {
  readonly #decoder: WriteDecoder;
  readonly #session: WriteSession;
  readonly #namespaces: IngestNamespaces;
  readonly #metrics: IngestMetrics;
  readonly #clock: PartWriterOptions['clock'];
  readonly #coldRefusals: ColdRefusals;
  readonly #dropped: DroppedRoute | null;

  constructor({ decoder, session, namespaces, metrics, clock, log, dropped }: PartWriterOptions) {
    this.#decoder = decoder;
    this.#session = session;
    this.#namespaces = namespaces;
    this.#metrics = metrics;
    this.#clock = clock;
    this.#coldRefusals = new ColdRefusals(metrics, log, clock);
    this.#dropped = dropped;
  }

  /**
   * Where floats and histograms go.
   * @param named the only namespace that is meant; null for all that take them
   * @returns no namespaces when that one takes messages
   * @throws {TsdbError} UNAVAILABLE when none is ready
   */
  of(named: string | null): Omit<WriteOfKind, 'parts'> {
    const ready = namedOf(this.#namespaces.ready(), named);
    const namespaces = ready.filter(({ schemas }) => schemas === null);
    if (named !== null) return { namespaces, registry: null };
    if (namespaces.length > 0) return { namespaces, registry: this.#namespaces.registry() };
    throw new TsdbError(
      'UNAVAILABLE',
      'unaggregated namespace is not yet initialized: none is READY',
    );
  }

  /**
   * What is written at once is on its way when this comes back.
   * @throws {TsdbError} when any row may be sent again
   */
  async write(
    writing: Writing,
    part: readonly BodyRows[],
    kind: Omit<WriteOfKind, 'parts'>,
    signal: AbortSignal,
  ): Promise<void> {
    const { asked, cold, format, report } = writing;
    const writes = this.#writesOf(part, kind, writing.firstRow, signal);
    const outcome = await gather(writes, this.#decoder, this.#clock, report, signal);
    if (outcome instanceof TsdbError) {
      const reason = outcome.code === 'FAILED_PRECONDITION' ? 'clock' : 'passing';
      const count = asked.samples + asked.histograms - report.count;
      this.#metrics.refusedSamples.increase(count, { format, reason });
      throw outcome;
    }
    for (const [namespace, rows] of outcome) {
      cold.set(namespace, (cold.get(namespace) ?? 0) + rows);
    }
    for (const { rowCount } of part) writing.firstRow += rowCount;
  }

  /** @throws {RowsRefused} when there are bad ones */
  end({ asked, cold, format, report }: Writing): void {
    const metrics = this.#metrics;
    const total = asked.samples + asked.histograms;
    // Only now: a sender sends the rows of a request that failed for a passing reason once more.
    for (const [namespace, count] of cold) {
      if (count > 0) this.#coldRefusals.note(namespace, count);
    }
    const written = report.writtenOf(asked);
    if (report.count < total) metrics.writtenSamples.increase(total - report.count, { format });
    if (written.histograms > 0) metrics.writtenHistograms.increase(written.histograms, { format });
    if (report.count > 0) {
      metrics.refusedSamples.increase(report.count, { format, reason: 'bad' });
      throw report.error(asked);
    }
    if (report.otherCount > 0) throw report.error(asked);
  }

  /** Rows that are kept, and those that rules drop; null when none is dropped. */
  #divided(
    rows: BodyRows,
  ): (DividedRows & { readonly asideNamespace: IngestNamespace | null }) | null {
    const dropped = this.#dropped;
    if (dropped === null) return null;
    const divided = dropped.rows.divided(rows, this.#decoder, () => dropped.namespace() !== null);
    if (divided === null) return null;
    const { aside, nowhere } = divided;
    if (aside.length > 0) this.#metrics.droppedSamples.increase(aside.length, { kept: 'windows' });
    if (nowhere > 0) this.#metrics.droppedSamples.increase(nowhere, { kept: 'nothing' });
    // It is made when it is asked for.
    return { ...divided, asideNamespace: aside.length > 0 ? dropped.namespace() : null };
  }

  /** All at once: their columns are the write decoder's. */
  #writesOf(
    part: readonly BodyRows[],
    { namespaces, registry }: Omit<WriteOfKind, 'parts'>,
    firstOfPart: number,
    signal: AbortSignal,
  ): WriteOfPart[] {
    const writes: WriteOfPart[] = [];
    let firstRow = firstOfPart;
    for (const rows of part) {
      if (rows.rowCount === 0) continue;
      const write = (
        some: BodyRows,
        places: Uint32Array | null,
        takers: readonly IngestNamespace[],
        asked: RegistryVersion | null,
      ): void => {
        const longestNanos = takers.reduce(
          (longest, { retentionNanos }) => (retentionNanos > longest ? retentionNanos : longest),
          0n,
        );
        for (const namespace of takers) {
          const isOfHistograms = 'valueEnds' in rows && namespace.schemas === null;
          const options = asked === null ? {} : { registry: asked };
          const result = this.#session.write(namespace.name, some, this.#decoder, signal, options);
          writes.push({ namespace, longestNanos, isOfHistograms, firstRow, places, result });
        }
      };
      const divided = registry === null ? null : this.#divided(rows);
      if (divided === null) write(rows, null, namespaces, registry);
      else {
        const { kept, aside, asideNamespace } = divided;
        if (kept.length > 0) write(pickedRows(rows, kept), kept, namespaces, registry);
        if (aside.length > 0) write(pickedRows(rows, aside), aside, [asideNamespace!], null);
      }
      firstRow += rows.rowCount;
    }
    return writes;
  }
}
