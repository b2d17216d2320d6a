/**
 * Namespaces of samples, of which every READY one gets every row, and since when each has every one
 * (docs/AGGREGATION.md, Reads over namespaces of samples).
 */
import { droppedNamespace, isCompanion } from './companions.ts';
import {
  aggregationOf,
  isReady,
  isUnaggregated,
  type Namespace,
  type NamespaceRegistry,
  registryOf,
  type RowsSince,
  rowsSinceOf,
} from './namespaces.ts';
import { schemasOf } from './schemas.ts';

/** Whether rows of floats and histograms that name no namespace go into it once it is READY. */
export function isOfSamples(namespace: Namespace): boolean {
  return isUnaggregated(namespace) && schemasOf(namespace) === null && !isCompanion(namespace.name);
}

/** The READY ones, in the order in which they were made ready. */
export function readySamples(registry: NamespaceRegistry): Namespace[] {
  return [...registry.values()].filter((one) => isReady(one) && isOfSamples(one));
}

/**
 * The namespace that is made READY: where it is the only one, it has every row that there is; one of windows will have
 * those of the rows that are there.
 * @param registry without it
 */
export function whenReady(
  registry: NamespaceRegistry,
  namespace: Namespace,
  nowNanos: bigint,
): Namespace {
  const others = readySamples(registry);
  if (isOfWindows(namespace)) {
    const { resolutionNanos } = aggregationOf(namespace)!;
    // The first window of which all rows are there, when nodes come to it.
    const madeFromNanos = resolutionNanos + clockDoubtNanos;
    const since = samplesSince(others.map(readSamplesOf), nowNanos);
    return { ...namespace, completeSinceNanos: since + madeFromNanos };
  }
  const isAlone = isOfSamples(namespace) && others.length === 0;
  if (!isAlone) return withoutPromise(namespace);
  // Windows may be of another one, which has ended with its rows.
  const hasWindows = registry.values().some((one) => isReady(one) && isOfWindows(one));
  const gone = hasWindows ? { goneBeforeNanos: nowNanos } : {};
  return { ...namespace, completeSinceNanos: 0n, ...gone };
}

/**
 * The registry without a namespace. Rows that the others did not have from the beginning go with it.
 * @param registry without it
 */
export function whenDeleted(
  registry: NamespaceRegistry,
  deleted: Namespace,
  nowNanos: bigint,
): NamespaceRegistry {
  const others = readySamples(registry);
  if (!isReady(deleted) || !isOfSamples(deleted) || others.length === 0) return registry;
  const promised = nowNanos + aheadNanos([deleted, ...others]);
  const next = new Map(registry);
  for (const one of others) {
    const { completeSinceNanos = promised, goneBeforeNanos = 0n } = one;
    if (completeSinceNanos <= goneBeforeNanos) continue;
    next.set(one.name, { ...one, goneBeforeNanos: completeSinceNanos });
  }
  return next;
}

/** Rows that lie so far ahead may have been written before now, by the clock of who promises. */
function aheadNanos(namespaces: readonly Namespace[]): bigint {
  const buffers = namespaces.map(({ options }) => options.retentionOptions.bufferFutureNanos);
  return buffers.reduce((a, b) => (b > a ? b : a)) + clockDoubtNanos;
}

/** Whether nodes make its windows once it is READY: of all series, or of those that rules name. */
export function isOfWindows(namespace: Namespace): boolean {
  return !isUnaggregated(namespace) && aggregationOf(namespace) !== null;
}

/** Of the retention of samples windows wait for so much at most. */
const waitPartOfRetention = 8n;
export const windowsWaitNanosMax = 600_000_000_000n;

/**
 * How long windows wait for rows that are not in files yet, so how long rows of a closed block wait in memory at most; and how
 * long windows that are made stay before they are made once more for rows that came since (docs/AGGREGATION.md).
 * @param retentionNanos of the samples
 */
export function windowsWaitNanos(retentionNanos: bigint): bigint {
  const part = retentionNanos / waitPartOfRetention;
  return part < windowsWaitNanosMax ? part : windowsWaitNanosMax;
}

function readSamplesOf(namespace: Namespace): ReadSamples {
  const retentionNanos = namespace.options.retentionOptions.retentionPeriodNanos;
  return { retentionNanos, ...rowsSinceOf(namespace) };
}

export function withoutPromise(namespace: Namespace): Namespace {
  const { completeSinceNanos, ...rest } = namespace;
  return completeSinceNanos === undefined ? namespace : rest;
}

/**
 * After a store was restored: who writes may not have heard of all of them meanwhile. One that is alone keeps its promise,
 * for every row went to it.
 */
export function withoutPromises(registry: NamespaceRegistry): NamespaceRegistry {
  if (readySamples(registry).length < 2) return registry;
  return registryOf(
    [...registry.values()].map((one) => (isOfSamples(one) ? withoutPromise(one) : one)),
  );
}

/** After a longer retention, of samples, dropped ones or windows: what had expired before it stays away. */
export function keepingFloor(before: Namespace, after: Namespace, nowNanos: bigint): Namespace {
  const isSame =
    before.name === droppedNamespace ||
    (isOfSamples(before) && isOfSamples(after)) ||
    (isOfWindows(before) && isOfWindows(after));
  if (!isSame) return withoutPromise(after);
  const [had, has] = [before, after].map(
    (one) => one.options.retentionOptions.retentionPeriodNanos,
  );
  // One that is not ready has had no rows.
  if (!isReady(before) || has! <= had!) return after;
  const floor = nowNanos - had!;
  if (isOfWindows(before)) {
    const { completeSinceNanos = floor } = before;
    return { ...after, completeSinceNanos: latest(floor, completeSinceNanos) };
  }
  const { goneBeforeNanos = floor } = before;
  return { ...after, goneBeforeNanos: latest(floor, goneBeforeNanos) };
}

/** How far clocks of nodes may be from that of who promises. */
const clockDoubtNanos = 120_000_000_000n;

/**
 * The registry with a promise for each that has none: from now on every row goes to it. Only for who knows that every
 * node refuses writers that have not heard of all of them.
 * @returns the registry itself when there is none to make
 */
export function withPromises(registry: NamespaceRegistry, nowNanos: bigint): NamespaceRegistry {
  const all = readySamples(registry);
  const pending = all.filter(({ completeSinceNanos }) => completeSinceNanos === undefined);
  if (pending.length === 0) return registry;
  // Who is alone has every row that there is: others that had more have ended.
  const completeSinceNanos = all.length === 1 ? 0n : nowNanos + aheadNanos(all);
  const promised = new Map(registry);
  for (const namespace of pending) {
    promised.set(namespace.name, { ...namespace, completeSinceNanos });
  }
  return promised;
}

/** Which namespaces somebody knows: a revision, of one store. */
export interface RegistryVersion {
  readonly revision: number;
  readonly lineageId: string;
}

/** A part of a read: one namespace, from a time on up to another. */
export interface SamplesPart<Of> {
  readonly namespace: Of;
  readonly startNanos: bigint;
  readonly endNanos: bigint;
}

/**
 * From which time on there is every row that ever was: in the one that goes back furthest with all of them, or in all
 * together, as far as none of these has let anything go.
 */
export function samplesSince(namespaces: readonly ReadSamples[], nowNanos: bigint): bigint {
  return completeSince(
    namespaces.map((one) => ({ ...one, keepsFromNanos: nowNanos - one.retentionNanos })),
    nowNanos,
  );
}

/** The same, of what is kept. @param without what to say where there are none */
export function completeSince(
  namespaces: readonly (RowsSince & { readonly keepsFromNanos: bigint })[],
  without: bigint,
): bigint {
  if (namespaces.length === 0) return without;
  const together = namespaces.map(hasFrom).reduce(latest);
  return namespaces.reduce((least, one) => {
    const { completeSinceNanos: since } = one;
    if (since === undefined) return least;
    const alone = latest(since, hasFrom(one));
    return alone < least ? alone : least;
  }, together);
}

/** Of what is before it may have let something go. */
function hasFrom({
  keepsFromNanos,
  goneBeforeNanos = keepsFromNanos,
}: RowsSince & { readonly keepsFromNanos: bigint }): bigint {
  return latest(keepsFromNanos, goneBeforeNanos);
}

const latest = (a: bigint, b: bigint): bigint => (b > a ? b : a);

/** What a choice of namespaces goes by. */
export interface ReadSamples extends RowsSince {
  readonly retentionNanos: bigint;
}

/** From which time on a namespace has every row that ever was; null as long as nobody can tell. */
export function hasAllFrom(namespace: ReadSamples, nowNanos: bigint): bigint | null {
  const { retentionNanos, completeSinceNanos: since } = namespace;
  if (since === undefined) return null;
  return latest(since, hasFrom({ ...namespace, keepsFromNanos: nowNanos - retentionNanos }));
}

/**
 * Who is asked for a range: the first that has every row of it; or the one that goes back furthest with every row, and of
 * the time before that all that may have some. Rows of several are joined by their versions.
 * @param namespaces one at least, in the order in which they were made ready
 */
export function samplesParts<Of extends ReadSamples>(
  namespaces: readonly Of[],
  { startNanos, endNanos }: { readonly startNanos: bigint; readonly endNanos: bigint },
  nowNanos: bigint,
): SamplesPart<Of>[] {
  const whole = (namespace: Of): SamplesPart<Of> => ({ namespace, startNanos, endNanos });
  if (namespaces.length === 1) return [whole(namespaces[0]!)];
  const all = namespaces.map((namespace) => ({
    namespace,
    keepsFrom: nowNanos - namespace.retentionNanos,
    allFrom: hasAllFrom(namespace, nowNanos),
  }));
  // Before that nobody has anything.
  const oldest = all.reduce(
    (least, { keepsFrom }) => (keepsFrom < least ? keepsFrom : least),
    all[0]!.keepsFrom,
  );
  const from = startNanos > oldest ? startNanos : oldest;
  const enough = all.find(({ allFrom }) => allFrom !== null && allFrom <= from);
  if (enough !== undefined) return [whole(enough.namespace)];
  let best: (typeof all)[number] | null = null;
  for (const one of all) {
    if (one.allFrom === null) continue;
    if (best === null || one.allFrom < best.allFrom!) best = one;
  }
  const knownFrom = best?.allFrom ?? endNanos;
  const pastNanos = knownFrom < endNanos ? knownFrom : endNanos;
  return all.flatMap((one) => {
    if (one === best) return [whole(one.namespace)];
    if (one.keepsFrom >= pastNanos || startNanos >= pastNanos) return [];
    return [{ namespace: one.namespace, startNanos, endNanos: pastNanos }];
  });
}
