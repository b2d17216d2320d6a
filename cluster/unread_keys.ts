/**
 * Keys of a stored value that this version does not know: a later one wrote them, and an older one
 * that changes the value must not lose them. The reader notes them (`Fields.ofStored`), and the
 * writer puts them back where their object still is.
 */

/** The keys of one object that nothing has read. */
export interface UnreadKeys {
  /** Keys and indexes that lead from the value to the object. */
  readonly steps: readonly (string | number)[];
  /** By lowerCamel key. */
  readonly keys: Readonly<Record<string, unknown>>;
}

/**
 * A value to be stored, with the unread keys of the one before it. Those of an object that is gone
 * go with it; so do those of a list's element when the list was changed, since nothing says which
 * element is which then.
 * @param before what the stored value is, printed as `next` is
 * @param next JSON; not changed
 */
export function withUnreadKeys<T>(next: T, before: unknown, unread: readonly UnreadKeys[]): T {
  if (unread.length === 0) return next;
  const copy = structuredClone(next);
  // All are found before any is given its keys: a list that got some would count as changed.
  const objects = unread.map(({ steps }) => objectAt(copy, before, steps));
  for (const [i, found] of objects.entries()) {
    if (found !== null) Object.assign(found, unread[i]!.keys);
  }
  return copy;
}

function objectAt(
  value: unknown,
  before: unknown,
  steps: readonly (string | number)[],
): object | null {
  let here = value;
  let there = before;
  for (const step of steps) {
    if (Array.isArray(here) && JSON.stringify(here) !== JSON.stringify(there)) return null;
    here = memberOf(here, step);
    there = memberOf(there, step);
  }
  return typeof here === 'object' ? here : null;
}

function memberOf(value: unknown, key: string | number): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return null;
  return (value as Record<string | number, unknown>)[key];
}
