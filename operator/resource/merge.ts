/** Merging overlays into objects, and telling whether an object already is as wanted. */

type Json = unknown;

export const isRecord = (value: Json): value is Record<string, Json> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Of a mount its path, since a volume may have several; else the name. */
function nameOf(value: Json): string | null {
  if (!isRecord(value)) return null;
  const { mountPath, name } = value;
  if (typeof mountPath === 'string') return mountPath;
  return typeof name === 'string' ? name : null;
}

/**
 * Objects are merged, lists of named things (containers, volumes, variables) by name, all else is
 * replaced.
 */
export function overlay(base: Json, over: Json): Json {
  if (isRecord(base) && isRecord(over)) {
    // Object.fromEntries() defines its keys: assigning to a key called __proto__ would lose it.
    const merged = new Map(Object.entries(base));
    for (const [key, value] of Object.entries(over)) {
      merged.set(key, merged.has(key) ? overlay(merged.get(key), value) : value);
    }
    return Object.fromEntries(merged);
  }
  if (Array.isArray(base) && Array.isArray(over) && [...base, ...over].every(nameOf)) {
    const merged: Json[] = [];
    // Of two with one name the first is meant. A resource may have ten thousands of them.
    const placeOf = new Map<string | null, number>();
    for (const item of base as Json[]) {
      const name = nameOf(item);
      if (!placeOf.has(name)) placeOf.set(name, merged.length);
      merged.push(item);
    }
    for (const item of over as Json[]) {
      const name = nameOf(item);
      const at = placeOf.get(name);
      if (at === undefined) placeOf.set(name, merged.push(item) - 1);
      else merged[at] = overlay(merged[at], item);
    }
    return merged;
  }
  return over;
}

/**
 * Whether everything that is wanted stands in the live object so; the server's own additions do not
 * matter.
 */
export function contains(live: Json, wanted: Json): boolean {
  if (isRecord(wanted)) {
    if (!isRecord(live)) return Object.keys(wanted).length === 0 && live === undefined;
    return Object.entries(wanted).every(([key, value]) =>
      contains(Object.hasOwn(live, key) ? live[key] : undefined, value),
    );
  }
  if (Array.isArray(wanted)) {
    if (!Array.isArray(live)) return wanted.length === 0 && live === undefined;
    return (
      live.length === wanted.length && wanted.every((item, index) => contains(live[index], item))
    );
  }
  return live === wanted || (live === undefined && wanted === undefined);
}

/** The merge patch that makes `before` to `after`: members that are gone, at any depth, are null. */
export function clearing(before: Json, after: Json): Json {
  if (!isRecord(before) || !isRecord(after)) return after;
  const gone = Object.keys(before).filter((key) => !Object.hasOwn(after, key));
  return Object.fromEntries([
    ...gone.map((key) => [key, null] as const),
    ...Object.entries(after).map(([key, value]) => [key, clearing(before[key], value)] as const),
  ]);
}
