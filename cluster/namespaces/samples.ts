/**
 * Namespaces of samples, of which every READY one gets every row, and since when each has every one
 * (docs/AGGREGATION.md, Reads over namespaces of samples).
 */
import { isCompanion } from './companions.ts';
import {
  aggregationOf,
  isReady,
  isUnaggregated,
  type Namespace,
  type NamespaceRegistry,
  registryOf,
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
    const completeSinceNanos = samplesSince(others.map(readSamplesOf), nowNanos);
    return { ...namespace, completeSinceNanos };
  }
  const isAlone = isOfSamples(namespace) && others.length === 0;
  return isAlone ? { ...namespace, completeSinceNanos: 0n } : withoutPromise(namespace);
}

/** Whether nodes make its windows once it is READY. */
export function isOfWindows(namespace: Namespace): boolean {
  return !isUnaggregated(namespace) && aggregationOf(namespace)?.downsampleAll === true;
}

function readSamplesOf({ options, completeSinceNanos }: Namespace): ReadSamples {
  const retentionNanos = options.retentionOptions.retentionPeriodNanos;
  return completeSinceNanos === undefined
    ? { retentionNanos }
    : { retentionNanos, completeSinceNanos };
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

/** After a longer retention, of samples or of windows: what had expired before it stays away. */
export function keepingFloor(before: Namespace, after: Namespace, nowNanos: bigint): Namespace {
  const isSame =
    (isOfSamples(before) && isOfSamples(after)) || (isOfWindows(before) && isOfWindows(after));
  if (!isSame) return withoutPromise(after);
  const { completeSinceNanos: since } = before;
  const [had, has] = [before, after].map(
    (one) => one.options.retentionOptions.retentionPeriodNanos,
  );
  if (since === undefined || has! <= had!) return after;
  const floor = nowNanos - had!;
  return { ...after, completeSinceNanos: floor > since ? floor : since };
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
  // Rows that lie ahead may have been written before.
  const ahead = all.reduce((most, { options }) => {
    const { bufferFutureNanos } = options.retentionOptions;
    return bufferFutureNanos > most ? bufferFutureNanos : most;
  }, 0n);
  // Who is alone has had every row that there is: it became READY before there were promises.
  const completeSinceNanos = all.length === 1 ? 0n : nowNanos + ahead + clockDoubtNanos;
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
    namespaces.map(({ retentionNanos, completeSinceNanos }) => ({
      keepsFromNanos: nowNanos - retentionNanos,
      completeSinceNanos,
    })),
    nowNanos,
  );
}

/** The same, of what is kept. @param without what to say where there are none */
export function completeSince(
  namespaces: readonly {
    readonly keepsFromNanos: bigint;
    readonly completeSinceNanos: bigint | undefined;
  }[],
  without: bigint,
): bigint {
  const [first] = namespaces;
  if (first === undefined) return without;
  let together = first.keepsFromNanos;
  for (const { keepsFromNanos } of namespaces) {
    if (keepsFromNanos > together) together = keepsFromNanos;
  }
  return namespaces.reduce((least, { keepsFromNanos, completeSinceNanos: since }) => {
    if (since === undefined) return least;
    const alone = since > keepsFromNanos ? since : keepsFromNanos;
    return alone < least ? alone : least;
  }, together);
}

/** What a choice of namespaces goes by. */
export interface ReadSamples {
  readonly retentionNanos: bigint;
  /** Not set as long as nobody can tell. */
  readonly completeSinceNanos?: bigint;
}

/** From which time on a namespace has every row that ever was; null as long as nobody can tell. */
export function hasAllFrom(
  { retentionNanos, completeSinceNanos: since }: ReadSamples,
  nowNanos: bigint,
): bigint | null {
  if (since === undefined) return null;
  const keepsFrom = nowNanos - retentionNanos;
  return since > keepsFrom ? since : keepsFrom;
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
