/** Exemplars and metadata as they are stored, read from their namespaces. */
import {
  exemplarsNamespace,
  metadataIntervalNanos,
  metadataNamespace,
} from '#cluster/namespaces/companions.ts';
import { bundleBytes } from '#cluster/node/bundle_pages.ts';
import type { ReadConsistency } from '#cluster/session/consistency.ts';
import type { FetchResult, Session } from '#cluster/session/session.ts';
import type { Turning } from '#engine/aside/aside.ts';
import { withRegexps } from '#engine/aside/regexps.ts';
import type { SeriesBundle } from '#engine/codec/series_bundle.ts';
import { apart, typedInOrder } from '#engine/store/typed_chunks.ts';
import { decodeTypedRows } from '#engine/typed/codec.ts';
import { type Exemplar, exemplarOfValue } from '#engine/typed/exemplar.ts';
import { type FamilyMetadata, metadataOfValue } from '#engine/typed/metadata.ts';
import { valueKind } from '#engine/typed/typed_value.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import type { ReadBytes } from '#lib/read_memory/read_memory.ts';
import { decodeTags, metricNameTag, type Tags, tagValue } from '#lib/tags.ts';
import { clampNanos, nanosPerMilli } from '#lib/time.ts';
import { sortPaced } from '#lib/turns/paced.ts';
import type { Work } from '#lib/turns/turns.ts';
import { Pacer } from '../promql/rows/pacer.ts';
import { queryOfMatcherLists } from '../select/matcher_query.ts';
import type { Matcher } from '../select/storage.ts';

/** The part of the session that is needed. */
export type CompanionSession = Pick<Session, 'fetch'>;

export interface TimedExemplar extends Exemplar {
  readonly timestampMillis: bigint;
}

export interface SeriesExemplars {
  readonly tags: Tags;
  /** By time, then value, then labels. */
  readonly exemplars: readonly TimedExemplar[];
}

export interface ReadBounds {
  /** 0 = no limit. */
  readonly seriesMax: number;
  /** Of all rows that an answer holds. */
  readonly samplesMax: number;
  readonly memory: ReadBytes;
  /** Of replicas; not set: as the configuration says. */
  readonly consistency?: ReadConsistency;
}

/** About what it takes to read one row, in units of work (lib/turns/turns.ts). */
const rowUnits = 1000;
const chunkUnits = 20_000;
/** What an exemplar, or an entry of metadata, takes as objects beside its texts. */
const rowBytes = 400;
const compareUnits = 200;

/**
 * Exemplars of series that one of the lists takes, by the order of their tags, each series once.
 * @param range Unix milliseconds, both inclusive
 * @throws {TsdbError} as `Session.fetch`
 */
export async function readExemplars(
  session: CompanionSession,
  lists: readonly (readonly Matcher[])[],
  range: readonly [startMillis: bigint, endMillis: bigint],
  { samplesMax, ...bounds }: ReadBounds,
  turning: Turning,
  signal: AbortSignal,
): Promise<{ readonly series: readonly SeriesExemplars[]; readonly warnings: readonly string[] }> {
  const query = await withRegexps(turning, (regexps) => queryOfMatcherLists(lists, regexps));
  const { work } = turning;
  const pacer = new Pacer(work, samplesMax, bounds.memory);
  const nanos = [
    clampNanos(range[0] * nanosPerMilli),
    clampNanos((range[1] + 1n) * nanosPerMilli),
  ] as const;
  const read = { namespace: exemplarsNamespace, query, ...bounds };
  const { bundle, warnings } = await fetchRows(session, read, nanos, work, signal);
  const series: SeriesExemplars[] = [];
  for (let i = 0; i < bundle.seriesCount; i++) {
    const exemplars: TimedExemplar[] = [];
    let isSorted = true;
    for await (const row of rowsOf(bundle, i, nanos, valueKind.exemplar, pacer)) {
      const timestampMillis = millisOf(row.timestampNanos);
      const exemplar = { ...exemplarOfValue(row.value), timestampMillis };
      const last = exemplars.at(-1);
      isSorted &&= last === undefined || compareExemplars(last, exemplar) <= 0;
      exemplars.push(exemplar);
    }
    if (exemplars.length === 0) continue;
    const inOrder = isSorted
      ? exemplars
      : await sortPaced(exemplars, compareExemplars, work, compareUnits);
    series.push({ tags: tagsOf(bundle, i), exemplars: inOrder });
  }
  pacer.give(bundleBytes(bundle));
  const byTags = (a: SeriesExemplars, b: SeriesExemplars): number => compareLabels(a.tags, b.tags);
  return { series: await sortPaced(series, byTags, work, compareUnits), warnings };
}

/** Entries of a family, those that were sent last first. */
export interface Family {
  readonly name: string;
  readonly entries: readonly FamilyMetadata[];
}

/**
 * Metadata of all families, by name.
 * @param name of one family alone; '' for all
 * @throws {TsdbError} as `Session.fetch`
 */
export async function readMetadata(
  session: CompanionSession,
  name: string,
  range: readonly [startNanos: bigint, endNanos: bigint],
  { samplesMax, ...bounds }: ReadBounds,
  work: Work,
  signal: AbortSignal,
): Promise<{ readonly families: readonly Family[]; readonly warnings: readonly string[] }> {
  const query: IndexQuery =
    name === '' ? { kind: 'all' } : { kind: 'term', field: metricNameTag, term: name };
  const pacer = new Pacer(work, samplesMax, bounds.memory);
  const read = { namespace: metadataNamespace, query, ...bounds };
  const { bundle, warnings } = await fetchRows(session, read, range, work, signal);
  const families: Family[] = [];
  for (let i = 0; i < bundle.seriesCount; i++) {
    /** When each value was sent last. */
    const lastOf = new Map<string, { value: Uint8Array; nanos: bigint }>();
    for await (const row of rowsOf(bundle, i, range, valueKind.metadata, pacer)) {
      const nanos = row.timestampNanos - (row.timestampNanos % metadataIntervalNanos);
      lastOf.set(Buffer.from(row.value).toString('latin1'), { value: row.value, nanos });
    }
    const family = tagValue(tagsOf(bundle, i), metricNameTag);
    if (lastOf.size > 0 && family !== undefined) {
      families.push({ name: family, entries: liveEntries([...lastOf.values()]) });
    }
  }
  pacer.give(bundleBytes(bundle));
  const byName = (a: Family, b: Family): number => compareTexts(a.name, b.name);
  return { families: await sortPaced(families, byName, work, compareUnits), warnings };
}

/** Without those that nobody has sent since others of the family came. */
function liveEntries(
  all: readonly { readonly value: Uint8Array; readonly nanos: bigint }[],
): FamilyMetadata[] {
  const last = all.reduce((max, { nanos }) => (nanos > max ? nanos : max), 0n);
  return all
    .filter(({ nanos }) => nanos >= last - metadataIntervalNanos)
    .sort((a, b) => Number(b.nanos - a.nanos) || Buffer.compare(a.value, b.value))
    .map(({ value }) => metadataOfValue(value));
}

function fetchRows(
  session: CompanionSession,
  read: Omit<ReadBounds, 'samplesMax'> & {
    readonly namespace: string;
    readonly query: IndexQuery;
  },
  [startNanos, endNanos]: readonly [bigint, bigint],
  work: Work,
  signal: AbortSignal,
): Promise<FetchResult> {
  const { seriesMax: seriesLimit, ...asked } = read;
  const range = { startNanos, endNanos, fetchData: true, requireExhaustive: false };
  return work.outside(session.fetch({ ...asked, ...range, seriesLimit }, signal));
}

/** Rows of one kind of a series, in ascending time. What else somebody has written is passed over. */
async function* rowsOf(
  bundle: SeriesBundle,
  series: number,
  range: readonly [startNanos: bigint, endNanos: bigint],
  kind: number,
  pacer: Pacer,
): AsyncGenerator<{ readonly timestampNanos: bigint; readonly value: Uint8Array }> {
  const { chunkData, chunkOffset } = bundle;
  const chunks = chunkData.subarray(chunkOffset[series]!, chunkOffset[series + 1]!);
  for (const chunk of typedInOrder(apart([chunks]).typed, range)) {
    const { timestampNanos, valueBytes, valueEnds } = decodeTypedRows(chunk);
    if (pacer.spend(chunkUnits)) await pacer.pause();
    for (const [row, nanos] of timestampNanos.entries()) {
      if (pacer.spend(rowUnits)) await pacer.pause();
      if (nanos < range[0] || nanos >= range[1]) continue;
      const value = valueBytes.subarray(row === 0 ? 0 : valueEnds[row - 1]!, valueEnds[row]!);
      if (value[0] !== kind) continue;
      if (pacer.hold(1, rowBytes + 2 * value.length)) await pacer.room();
      yield { timestampNanos: nanos, value };
    }
  }
}

function tagsOf({ tagsData, tagsOffset }: SeriesBundle, series: number): Tags {
  return decodeTags(tagsData.subarray(tagsOffset[series]!, tagsOffset[series + 1]!));
}

/** Rounded down, also before 1970. */
function millisOf(nanos: bigint): bigint {
  return (nanos - (((nanos % nanosPerMilli) + nanosPerMilli) % nanosPerMilli)) / nanosPerMilli;
}

function compareExemplars(a: TimedExemplar, b: TimedExemplar): number {
  if (a.timestampMillis !== b.timestampMillis)
    return a.timestampMillis < b.timestampMillis ? -1 : 1;
  if (a.value !== b.value) return a.value < b.value ? -1 : a.value > b.value ? 1 : 0;
  return compareLabels(a.labels, b.labels);
}

type Labels = readonly { readonly name: string; readonly value: string }[];

/** As Prometheus orders them: label by label, the name before the value, a shorter list first. */
function compareLabels(a: Labels, b: Labels): number {
  for (let i = 0; i < a.length && i < b.length; i++) {
    const order = compareTexts(a[i]!.name, b[i]!.name) || compareTexts(a[i]!.value, b[i]!.value);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

/** By the bytes of UTF-8. */
function compareTexts(a: string, b: string): number {
  if (a === b) return 0;
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
