/**
 * Prints the series of a data folder: those of filesets, and those that are only in snapshot and
 * commit log.
 */
import { readTypedBatch, rowsOfBatch } from '#engine/batch/batch.ts';
import { type MixedRows, readMixedRows } from '#engine/store/read/mixed_rows.ts';
import type { RowsOfKind } from '#engine/store/rows.ts';
import type { Env } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import { seriesIdOf } from '#lib/series_id/from_tags.ts';
import type { DictionaryEntry } from '#node/persist/commitlog/format.ts';
import { readSegment } from '#node/persist/commitlog/reader.ts';
import { type FilesetKey, filesetPath, namespaceFolder } from '#node/persist/fileset/format.ts';
import { FilesetReader } from '#node/persist/fileset/reader.ts';
import { type DataFile, readDataFolder } from './folder.ts';
import { counted, type Print, timeText } from './spent.ts';
import { typedText } from './typed_text.ts';

const allTimes = [-(2n ** 63n), 2n ** 63n - 1n] as const;

export interface ReadOptions {
  /** Null for all. */
  readonly namespace: string | null;
  /** Only series whose ID contains it. */
  readonly match: string;
  /** Prints the rows too. */
  readonly rows: boolean;
  /** Most lines of series. */
  readonly limit: number;
}

/** Prints series until there are too many. */
class Output {
  readonly options: ReadOptions;
  readonly print: Print;
  #left: number;

  constructor(options: ReadOptions, print: Print) {
    this.options = options;
    this.print = print;
    this.#left = options.limit;
  }

  get isFull(): boolean {
    return this.#left < 0;
  }

  takes(namespace: string): boolean {
    return this.options.namespace === null || this.options.namespace === namespace;
  }

  /** @returns false when the series is not wanted, or there are enough */
  begin(id: string): boolean {
    if (this.isFull || !id.includes(this.options.match)) return false;
    this.#left -= 1;
    if (!this.isFull) return true;
    this.print(`… more than ${this.options.limit}: see --limit, --match and --namespace`);
    return false;
  }

  chunks(place: string, id: string, chunks: Uint8Array): void {
    if (!this.begin(id)) return;
    const { print } = this;
    let rows: MixedRows;
    try {
      rows = readMixedRows([chunks], allTimes);
    } catch (error) {
      print(`damaged: ${place} ${id}: ${messageOf(error)}`);
      return;
    }
    const { timestampNanos, values, typed, startNanos } = rows;
    const count = timestampNanos.length;
    const time = (row: number): string => timeText(timestampNanos[row]!);
    print(
      `${place} ${id}: ${counted(count, 'row')} from ${time(0)} to ${time(count - 1)}, ${chunks.length} bytes`,
    );
    if (!this.options.rows) return;
    for (let row = 0; row < count; row += 1) {
      const value = typed[row] ?? null;
      const text = value === null ? String(values[row]!) : typedText(value);
      print(rowLine(timestampNanos[row]!, text, startNanos[row]!));
    }
  }
}

/**
 * Prints where each series is: namespace and block of the newest volume of a fileset, snapshot, or
 * segment of the log; its rows, and first and last time. Damaged series and files are named and
 * passed over.
 */
export async function readFolder(
  env: Env,
  folder: string,
  options: ReadOptions,
  print: Print,
): Promise<void> {
  const found = await readDataFolder(env, folder);
  const output = new Output(options, print);
  for (const { name, shards } of found.namespaces.values()) {
    if (!output.takes(name)) continue;
    for (const [shard, files] of [...shards].sort(([a], [b]) => a - b)) {
      const shardFolder = `${namespaceFolder(folder, name)}/${shard}`;
      for (const key of newestVolumes(files)) {
        if (output.isFull) return;
        await readFileset(
          env,
          shardFolder,
          key,
          `${name} ${timeText(key.blockStartNanos)}`,
          output,
        );
      }
    }
  }
  for (const file of found.snapshots) await readRecords(env, folder, file, output);
  for (const file of found.segments) await readRecords(env, folder, file, output);
}

/** Of each block the newest complete one. */
function newestVolumes(files: ReadonlyMap<string, number>): FilesetKey[] {
  const newest = new Map<bigint, FilesetKey>();
  for (const name of files.keys()) {
    const match = /^fileset-(-?\d+)-(\d+)-checkpoint\.db$/.exec(name);
    if (match === null) continue;
    const key = { blockStartNanos: BigInt(match[1]!), volume: Number(match[2]) };
    const known = newest.get(key.blockStartNanos);
    if (known === undefined || known.volume < key.volume) newest.set(key.blockStartNanos, key);
  }
  return [...newest.values()].sort((a, b) => (a.blockStartNanos < b.blockStartNanos ? -1 : 1));
}

async function readFileset(
  env: Env,
  folder: string,
  key: FilesetKey,
  place: string,
  output: Output,
): Promise<void> {
  try {
    await using reader = await FilesetReader.open(env.disk, folder, key);
    for (const entry of reader.entries()) {
      const id = new TextDecoder().decode(entry.id);
      if (!id.includes(output.options.match)) continue;
      const chunks = await reader.readData(entry.dataOffset, entry.dataLength);
      if (reader.isWhole(entry, chunks)) output.chunks(place, id, chunks);
      else output.print(`damaged: ${filesetPath(folder, key, 'data')}: ${id}`);
      if (output.isFull) return;
    }
  } catch (error) {
    output.print(`damaged: ${messageOf(error)}`);
  }
}

interface SegmentSeries {
  readonly id: string;
  readonly place: string;
  rows: number;
  firstNanos: bigint;
  lastNanos: bigint;
  readonly lines: string[];
}

/**
 * Series of a snapshot, and rows of a segment gathered by series in the order in which they were
 * written.
 */
async function readRecords(
  env: Env,
  folder: string,
  { path }: DataFile,
  output: Output,
): Promise<void> {
  const { print } = output;
  const full = `${folder}/${path}`;
  const names = new Map<number, string>();
  const dictionary = new Map<string, DictionaryEntry>();
  const bySeries = new Map<string, SegmentSeries>();
  const report = ({ kind, start, end }: { kind: string; start: number; end: number }): void => {
    print(`${kind === 'torn tail' ? 'torn tail' : 'damaged'}: bytes ${start} to ${end} of ${full}`);
  };
  for await (const record of readSegment(env.disk, full, report)) {
    if (output.isFull) return;
    if (record.kind === 'namespace') names.set(record.ordinal, record.name);
    if (record.kind !== 'series' && record.kind !== 'batch' && record.kind !== 'chunks') continue;
    const namespace = names.get(record.namespaceOrdinal) ?? '';
    if (!output.takes(namespace)) continue;
    const keyOf = (slot: number, generation: number): string =>
      `${record.namespaceOrdinal} ${slot} ${generation}`;
    const place = `${namespace} ${path}`;
    if (record.kind === 'series') {
      for (const entry of record.entries) {
        const { slot, generation, idScheme } = entry;
        const copy = { tags: entry.tags.slice(), explicitId: entry.explicitId.slice() };
        dictionary.set(keyOf(slot, generation), { slot, generation, idScheme, ...copy });
      }
    } else if (record.kind === 'chunks') {
      for (const { slot, generation, chunks } of record.series) {
        const id = idText(dictionary.get(keyOf(slot, generation)));
        output.chunks(place, id, chunks.slice());
      }
    } else {
      let parts: readonly RowsOfKind[];
      try {
        parts = rowsOfBatch(readTypedBatch(record.batch.slice()));
      } catch (error) {
        print(`damaged: ${full}: ${messageOf(error)}`);
        continue;
      }
      const seriesOf = (slot: number, generation: number): SegmentSeries => {
        const key = keyOf(slot, generation);
        let series = bySeries.get(key);
        if (series === undefined) {
          const id = idText(dictionary.get(key));
          series = { id, place, rows: 0, firstNanos: 0n, lastNanos: 0n, lines: [] };
          bySeries.set(key, series);
        }
        return series;
      };
      for (const part of parts) addRows(part, output, seriesOf);
    }
  }
  for (const { id, place, rows, firstNanos, lastNanos, lines } of bySeries.values()) {
    if (!output.begin(id)) continue;
    print(
      `${place} ${id}: ${counted(rows, 'row')} from ${timeText(firstNanos)} to ${timeText(lastNanos)}`,
    );
    for (const line of lines) print(line);
  }
}

function addRows(
  { kind, rows }: RowsOfKind,
  output: Output,
  seriesOf: (slot: number, generation: number) => SegmentSeries,
): void {
  const textOf = (row: number): string => {
    if (kind === 'float') return String(rows.values[row]!);
    const start = row === 0 ? 0 : rows.valueEnds[row - 1]!;
    return typedText(rows.valueBytes.subarray(start, rows.valueEnds[row]!));
  };
  for (let row = 0; row < rows.rowCount; row += 1) {
    const series = seriesOf(rows.slots[row]!, rows.generations[row]!);
    const nanos = rows.timestamps[row]! * BigInt(rows.timeUnitNanos);
    if (series.rows === 0 || nanos < series.firstNanos) series.firstNanos = nanos;
    if (series.rows === 0 || nanos > series.lastNanos) series.lastNanos = nanos;
    series.rows += 1;
    if (output.options.rows && series.id.includes(output.options.match)) {
      series.lines.push(rowLine(nanos, textOf(row), rows.startNanos?.[row] ?? 0n));
    }
  }
}

function rowLine(nanos: bigint, value: string, startNanos: bigint): string {
  return `  ${nanos} ${value}${startNanos === 0n ? '' : ` since ${startNanos}`}`;
}

function idText(entry: DictionaryEntry | undefined): string {
  if (entry === undefined) return '(a series whose name is lost)';
  const id = seriesIdOf(entry.idScheme, entry.tags, entry.explicitId);
  return id === null ? '(a series without an ID)' : new TextDecoder().decode(id);
}
