/**
 * Metadata of remote writes on its way to its namespace. Senders say the same again and again: an entry is written once in
 * an interval, in the background.
 */
import { isUtf8 } from 'node:buffer';
import { metadataIntervalNanos } from '#cluster/namespaces/companions.ts';
import type { Session } from '#cluster/session/session.ts';
import { writeOutcome } from '#cluster/session/outcomes/write_result.ts';
import {
  type FamilyMetadata,
  metadataNanos,
  metricTypes,
  valueOfMetadata,
} from '#engine/typed/metadata.ts';
import type {
  RemoteWriteVersion,
  WriteDecoder,
  WriteDecoderMetadata,
} from '#engine/write_decoder/write_decoder.ts';
import type { Clock } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import { typedRowsFormatLevel } from '#lib/format_level.ts';
import { murmur3 } from '#lib/hashing/hash.ts';
import type { IdScheme } from '#lib/series_id/scheme.ts';
import { decodeTags, metricNameTag, tagValue } from '#lib/tags.ts';
import { loopTurn } from '#lib/turns/turns.ts';
import type { Companion } from '#cluster/namespaces/companion.ts';
import type { CompanionMetrics, DropReason } from './metrics.ts';
import { OneWriteSeries, type SeriesOfWrite, seriesOfTags } from '#cluster/session/one_write.ts';

/** New entries of one body: more are written when they are sent again. */
const newPerBodyMax = 4096;
/** Entries that wait to be written. */
const pendingMax = 100_000;
/** Entries of one write. */
const writtenAtOnce = 2000;
const nameBytesMax = 1024;
const helpBytesMax = 4096;
const unitBytesMax = 256;
/** Bad entries of one body about which is said what is wrong. */
const problemsMax = 20;

export interface MetadataSetting {
  readonly isEnabled: boolean;
  /** Of an interval. */
  readonly entriesMax: number;
}

interface Entry {
  readonly name: string;
  readonly value: Uint8Array;
  /** In `noted`. */
  readonly key: number;
}

export class MetadataWriter {
  readonly #setting: MetadataSetting;
  readonly #session: Pick<Session, 'write' | 'formatLevel'>;
  readonly #companion: Companion;
  readonly #metrics: CompanionMetrics;
  readonly #clock: Pick<Clock, 'nowNanos'>;
  readonly #idScheme: IdScheme;
  readonly #signal: AbortSignal;
  /** Start of the interval that the next ones are about. */
  #intervalNanos = -1n;
  /** What was written in this interval, or waits for it: hashes of messages in version 1, of entries in version 2. */
  readonly #noted = new Set<number>();
  /** By slot of the write decoder: generation and metadata of a series of version 2 that is noted, mixed; 0 for none. */
  #notedOfSlot = new Uint32Array(0);
  #pending: Entry[] = [];
  #isWriting = false;

  constructor(
    setting: MetadataSetting,
    session: Pick<Session, 'write' | 'formatLevel'>,
    companion: Companion,
    metrics: CompanionMetrics,
    clock: Pick<Clock, 'nowNanos'>,
    idScheme: IdScheme,
    signal: AbortSignal,
  ) {
    this.#setting = setting;
    this.#session = session;
    this.#companion = companion;
    this.#metrics = metrics;
    this.#clock = clock;
    this.#idScheme = idScheme;
    this.#signal = signal;
  }

  /**
   * Takes what of a body's metadata is not noted yet.
   * @returns what is wrong with some of it: in version 2 a reason to say so
   */
  note(
    metadata: WriteDecoderMetadata,
    version: RemoteWriteVersion,
    decoder: WriteDecoder,
  ): readonly string[] {
    this.#drop('limit', metadata.leftOutCount);
    const problems = version === 2 ? problemsOf(metadata, decoder) : [];
    const hindrance = this.#hindrance();
    if (hindrance !== null) {
      this.#drop(hindrance, metadata.count);
      return problems;
    }
    this.#begin();
    if (version === 1) this.#noteFamilies(metadata);
    else this.#noteSeries(metadata, decoder);
    if (!this.#isWriting && this.#pending.length > 0) {
      this.#isWriting = true;
      void this.#write();
    }
    return problems;
  }

  #hindrance(): DropReason | null {
    if (!this.#setting.isEnabled) return 'disabled';
    if (this.#session.formatLevel < typedRowsFormatLevel) return 'upgrade';
    return this.#companion.prepare() ? null : 'not_ready';
  }

  /** In another interval everything is written anew. */
  #begin(): void {
    const now = this.#clock.nowNanos();
    const intervalNanos = now - (now % metadataIntervalNanos);
    if (intervalNanos === this.#intervalNanos) return;
    this.#intervalNanos = intervalNanos;
    this.#noted.clear();
    this.#notedOfSlot.fill(0);
  }

  #noteFamilies(metadata: WriteDecoderMetadata): void {
    let newCount = 0;
    for (let row = 0; row < metadata.count; row++) {
      const key = metadata.hash(row);
      if (this.#noted.has(key)) continue;
      if (!this.#hasRoom(metadata.count - row, ++newCount)) return;
      const name = metadata.name(row);
      if (name.length === 0 || name.length > nameBytesMax || !isUtf8(name)) {
        this.#drop('bad', 1);
        continue;
      }
      this.#add(Buffer.from(name).toString(), metadata, row, key);
    }
  }

  #noteSeries(metadata: WriteDecoderMetadata, decoder: WriteDecoder): void {
    let newCount = 0;
    for (let row = 0; row < metadata.count; row++) {
      const slot = metadata.slot(row);
      const hash = metadata.hash(row);
      const mixed =
        (Math.imul(metadata.generation(row), 0x9e3779b1) ^ hash ^ (hash / 2 ** 32)) >>> 0 || 1;
      if (this.#notedOfSlot[slot] === mixed) continue;
      if (metadata.isUnresolved(row) || decoder.refused[slot] !== 0) {
        this.#drop('bad', 1);
        continue;
      }
      if (!this.#hasRoom(metadata.count - row, ++newCount)) return;
      this.#noteSlot(slot, mixed);
      const name = tagValue(decodeTags(decoder.borrowTags(slot)), metricNameTag) ?? '';
      if (name === '' || Buffer.byteLength(name) > nameBytesMax) {
        this.#drop('bad', 1);
        continue;
      }
      const family = familyOf(name, metadata.type(row));
      const key = murmur3(Buffer.from(family), metadata.type(row)) * 2 ** 21 + (hash % 2 ** 21);
      if (!this.#noted.has(key)) this.#add(family, metadata, row, key);
    }
  }

  #noteSlot(slot: number, mixed: number): void {
    if (slot >= this.#notedOfSlot.length) {
      const larger = new Uint32Array(Math.max(1024, 2 * slot));
      larger.set(this.#notedOfSlot);
      this.#notedOfSlot = larger;
    }
    this.#notedOfSlot[slot] = mixed;
  }

  /** @param left of the body, this one included */
  #hasRoom(left: number, newCount: number): boolean {
    if (this.#noted.size >= this.#setting.entriesMax) this.#drop('limit', left);
    else if (newCount > newPerBodyMax || this.#pending.length >= pendingMax)
      this.#drop('busy', left);
    else return true;
    return false;
  }

  #add(name: string, metadata: WriteDecoderMetadata, row: number, key: number): void {
    const said: FamilyMetadata = {
      type: metricTypes[metadata.type(row)] ?? 'unknown',
      help: textOf(metadata.help(row), helpBytesMax),
      unit: textOf(metadata.unit(row), unitBytesMax),
    };
    this.#noted.add(key);
    this.#pending.push({ name, value: valueOfMetadata(said), key });
  }

  async #write(): Promise<void> {
    try {
      // Samples of the same request go first.
      for (await loopTurn(); this.#pending.length > 0; await loopTurn()) {
        const entries = this.#pending.slice(0, writtenAtOnce);
        this.#pending = this.#pending.slice(entries.length);
        await this.#writeEntries(entries);
      }
    } finally {
      this.#isWriting = false;
    }
  }

  async #writeEntries(entries: readonly Entry[]): Promise<void> {
    const series = new OneWriteSeries(entries.map(({ name }) => this.#seriesOf(name)));
    let end = 0;
    const rows = {
      rowCount: entries.length,
      slots: Uint32Array.from(entries, (_, slot) => slot),
      generations: new Uint32Array(entries.length).fill(1),
      mayBeRefused: false,
      timestamps: BigInt64Array.from(entries, ({ value }) =>
        metadataNanos(this.#intervalNanos, value),
      ),
      timeUnitNanos: 1 as const,
      valueEnds: Uint32Array.from(entries, ({ value }) => (end += value.length)),
      valueBytes: new Uint8Array(Buffer.concat(entries.map(({ value }) => value))),
    };
    try {
      const { name } = this.#companion;
      const { outcomes } = await this.#session.write(name, rows, series, this.#signal);
      const isFailed = (_: Entry, row: number): boolean =>
        outcomes !== null && outcomes[row] !== writeOutcome.written;
      const failed = entries.filter(isFailed);
      this.#metrics.writtenMetadata.increase(entries.length - failed.length);
      this.#forget(failed);
    } catch (error) {
      if (!(error instanceof TsdbError) && !this.#signal.aborted) throw error;
      this.#forget(entries);
    }
  }

  #seriesOf(name: string): SeriesOfWrite {
    return seriesOfTags([{ name: metricNameTag, value: name }], this.#idScheme);
  }

  /** They are written when they are sent next. */
  #forget(entries: readonly Entry[]): void {
    if (entries.length === 0) return;
    this.#drop('failed', entries.length);
    for (const { key } of entries) this.#noted.delete(key);
    this.#notedOfSlot.fill(0);
  }

  #drop(reason: DropReason, count: number): void {
    if (count > 0) this.#metrics.droppedMetadata.increase(count, { reason });
  }
}

/** Series of classic histograms and of summaries have names of their own; their family is what Prometheus asks for. */
function familyOf(name: string, type: number): string {
  switch (metricTypes[type]) {
    case 'histogram':
    case 'gaugehistogram':
      return name.replace(/(?<=.)_(?:bucket|count|sum)$/, '');
    case 'summary':
      return name.replace(/(?<=.)_(?:count|sum)$/, '');
    default:
      return name;
  }
}

/** Cut where it is too long, at a character; what is no UTF-8 is shown as such. */
function textOf(bytes: Uint8Array, bytesMax: number): string {
  let end = Math.min(bytes.length, bytesMax);
  while (end > 0 && end < bytes.length && (bytes[end]! & 0xc0) === 0x80) end -= 1;
  return Buffer.from(bytes.subarray(0, end)).toString();
}

/** Metadata of series of version 2 that are none, or that names texts which are not there. */
function problemsOf(metadata: WriteDecoderMetadata, decoder: WriteDecoder): string[] {
  const problems: string[] = [];
  for (let row = 0; row < metadata.count && problems.length < problemsMax; row++) {
    const slot = metadata.slot(row);
    if (decoder.refused[slot] !== 0) problems.push(`metadata: ${decoder.problem(slot)}`);
    else if (metadata.isUnresolved(row)) {
      problems.push('metadata: help_ref or unit_ref is no place in the symbols of the request');
    }
  }
  return problems;
}
