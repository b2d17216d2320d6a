/**
 * Which coordinators keep series of statsd, from when on, and which of them keeps which: every coordinator comes to the same by
 * itself. Who keeps a series changes at one time for all, so that rows of the next one are later than all of the one before.
 */

export interface Receivers {
  /** 1 for the first ones. */
  readonly version: number;
  /** Addresses, sorted; each once. */
  readonly members: readonly string[];
  /** Who kept series before; empty when nobody did. */
  readonly before: readonly string[];
  /** Unix milliseconds. */
  readonly fromMillis: number;
}

/** Why it is no receivers; null when it is. They come from the store, and from other processes. */
export function receiversProblem(value: unknown): string | null {
  if (typeof value !== 'object' || value === null) return 'not an object';
  const { version, members, before, fromMillis } = value as Readonly<Record<string, unknown>>;
  if (!Number.isSafeInteger(version) || (version as number) < 1) return `version: ${version}`;
  if (!Number.isSafeInteger(fromMillis)) return `fromMillis: ${fromMillis}`;
  if (!areAddresses(members) || members.length === 0) return `members: ${members}`;
  return areAddresses(before) ? null : `before: ${before}`;
}

function areAddresses(value: unknown): value is readonly string[] {
  if (!Array.isArray(value)) return false;
  return value.every((one) => typeof one === 'string' && isAddress(one));
}

export function isAddress(text: string): boolean {
  return /^[^\s/]+:\d{1,5}$/.test(text);
}

/**
 * Between the choice of members and the time from which they hold: longer than the store may take for it, and what clocks differ by
 * beside.
 */
export const leadMillisDefault = 2_000;
/** Of the longest time between the choice and that time: what is later was chosen by a wrong clock. */
const aheadFactor = 5;

export function membersAt(
  { members, before, fromMillis }: Receivers,
  millis: number,
): readonly string[] {
  return millis < fromMillis ? before : members;
}

/**
 * How long others than the known ones cannot be chosen, since these are about to hold. Those of a clock that was far ahead are
 * not waited for.
 */
export function heldMillis(
  known: Receivers | null,
  nowMillis: number,
  leadMillis: number,
  intervalMillis: number,
): number {
  const millis = (known?.fromMillis ?? 0) - nowMillis;
  return millis <= aheadFactor * (leadMillis + intervalMillis) ? Math.max(0, millis) : 0;
}

/**
 * Receivers that take the place of others; null where those that are registered are the ones that hold, or where others are about
 * to.
 *
 * @param stored as they stand in the store; null for none
 * @param known newest that this coordinator has heard of; a store that was restored from a backup has older ones
 * @param intervalMillis they hold from a whole one of them on
 */
export function nextReceivers(
  stored: Receivers | null,
  known: Receivers | null,
  registered: readonly string[],
  nowMillis: number,
  leadMillis: number,
  intervalMillis: number,
): Receivers | null {
  if (registered.length === 0) return null;
  const members = [...new Set(registered)].sort();
  if (known === null) return { version: 1, members, before: [], fromMillis: 0 };
  if (heldMillis(known, nowMillis, leadMillis, intervalMillis) > 0) return null;
  const isStored = stored !== null && stored.version >= known.version;
  if (isStored && isSame(members, known.members) && nowMillis >= known.fromMillis) return null;
  const fromMillis = Math.ceil((nowMillis + leadMillis) / intervalMillis) * intervalMillis;
  return { version: known.version + 1, members, before: membersAt(known, nowMillis), fromMillis };
}

export function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((member, i) => member === b[i]);
}

/** Of the name of a series, or of a member. */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return mixed(hash);
}

/**
 * The member that keeps a series: with one member more or less only its series are kept elsewhere (rendezvous hashing).
 *
 * @param hash of the series
 * @param seeds of members, one at least
 * @returns its index
 */
export function ownerOf(hash: number, seeds: Int32Array): number {
  let owner = 0;
  let best = -1;
  for (let i = 0; i < seeds.length; i++) {
    const score = mixed(hash ^ seeds[i]!) >>> 0;
    if (score <= best) continue;
    best = score;
    owner = i;
  }
  return owner;
}

function mixed(hash: number): number {
  let h = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}
