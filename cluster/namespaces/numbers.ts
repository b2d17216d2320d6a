/**
 * What stands beside the registry: numbers and schemas of namespaces, and which ones have ended.
 *
 * Numbers: one that is deleted and made again under its name is another one, and who
 * hears of that late must not take rows of the one for the other. So each gets a number when it is
 * made, higher than all that were given, and at least the time in Unix milliseconds: also a store
 * that was restored from a backup gives none again, unless clocks are set back.
 *
 * They lie beside the registry in a key of their own, since releases before this one refuse
 * registries with keys that they do not know. What such a release makes has no number. A schema is
 * that of the namespace with that number.
 *
 * Beside them stand the numbers of namespaces that were deleted (`ended`). One that leaves the registry
 * without that, as by a hand on the key-value store, is lost: nobody has asked for its rows to go.
 */
import { Fields } from '../fields.ts';
import type { Stored } from '../kv/stored_json.ts';
import { endedNamespacesMax } from '../limits.ts';
import { type UnreadKeys, withUnreadKeys } from '../unread_keys.ts';
import {
  type Namespace,
  type NamespaceRegistry,
  registryOf,
  type RowsSince,
  rowsSinceOf,
} from './namespaces.ts';
import { joinedSchemas, schemaFromFields, schemaToJson } from './schemas.ts';

/** Stands for no promise: no row has this time. */
const neverNanos = -1n;

/** Of namespaces that were made by releases that gave none. */
const unnumbered = 1;

/** What messages say of a namespace: never 0, which stands for a sender that does not know. */
export function namespaceNumber({ number }: Pick<Namespace, 'number'>): number {
  return number ?? unnumbered;
}

/** The same of the namespace with this name; 0 when there is none. */
export function namespaceNumberIn(namespaces: NamespaceRegistry, name: string): number {
  const namespace = namespaces.get(name);
  return namespace === undefined ? 0 : namespaceNumber(namespace);
}

/** Whether the second one, of the same name, was made when the first one was deleted. */
export function isMadeAgain(
  known: Pick<Namespace, 'number'>,
  next: Pick<Namespace, 'number'>,
): boolean {
  // A lower one is that of a restored store: nobody has deleted anything.
  return namespaceNumber(next) > namespaceNumber(known);
}

/** By name: the highest number of a namespace that was deleted. */
export type EndedNamespaces = ReadonlyMap<string, number>;

export const noneEnded: EndedNamespaces = new Map();

/** Whether it was deleted, be it that another one of its name was made since. */
export function hasEnded(
  namespace: Pick<Namespace, 'name' | 'number'>,
  ended: EndedNamespaces,
): boolean {
  return (ended.get(namespace.name) ?? 0) >= namespaceNumber(namespace);
}

/** Deletions that anybody knows. */
export function joinedEnded(all: readonly EndedNamespaces[]): EndedNamespaces {
  const joined = new Map<string, number>();
  for (const [name, number] of all.flatMap((ended) => [...ended])) {
    joined.set(name, Math.max(number, joined.get(name) ?? 0));
  }
  return joined;
}

/** What is left of a registry that is older than these deletions. */
export function withoutEnded(
  registry: NamespaceRegistry,
  ended: EndedNamespaces,
): NamespaceRegistry {
  const left = [...registry.values()].filter((namespace) => !hasEnded(namespace, ended));
  return left.length === registry.size ? registry : registryOf(left);
}

/**
 * Whether the second one, of the same name, is the first one, perhaps with other options. One that was
 * made again is, too, when nobody has deleted the first one: a hand, or a restored store, had lost it.
 */
export function isSameNamespace(
  known: Namespace,
  next: Namespace | undefined,
  ended: EndedNamespaces,
): boolean {
  // The block size of a namespace never changes, so with another one it is another one of the same
  // name, made by a release that gives no numbers.
  return (
    next !== undefined &&
    next.options.retentionOptions.blockSizeNanos ===
      known.options.retentionOptions.blockSizeNanos &&
    !(isMadeAgain(known, next) && hasEnded(known, ended))
  );
}

/** Whether a message names a namespace that was deleted since, and made again. */
export function namesEarlier(
  { namespaceNumber: named = 0 }: { readonly namespaceNumber?: number },
  known: Pick<Namespace, 'number'>,
): boolean {
  return named !== 0 && named < namespaceNumber(known);
}

/** All namespaces of both; of one that both have the one that was made last, the first one's options. */
export function joinedRegistry(
  first: NamespaceRegistry,
  second: NamespaceRegistry,
): NamespaceRegistry {
  const joined = new Map(first);
  for (const [name, namespace] of second) {
    const known = joined.get(name);
    if (known === undefined || isMadeAgain(known, namespace)) joined.set(name, namespace);
    else if (namespace.schemas !== undefined && !isMadeAgain(namespace, known)) {
      joined.set(name, {
        ...known,
        schemas: joinedSchemas(known.schemas ?? [], namespace.schemas),
      });
    }
  }
  return registryOf([...joined.values()]);
}

/** A registry with the numbers of its namespaces, and what of them only a writer needs. */
export interface StoredRegistry extends Stored<NamespaceRegistry> {
  /** The highest number that was given; not set when none was. */
  readonly lastNumber?: number;
  /** Not set when it says nothing of them. */
  readonly ended?: EndedNamespaces;
  readonly unreadOfNumbers?: readonly UnreadKeys[];
}

/**
 * The registry that follows another one: namespaces of new names get numbers.
 * @param atLeast the lowest one that may be given
 */
export function withNewNumbers(
  current: StoredRegistry,
  next: NamespaceRegistry,
  atLeast: number,
): { readonly registry: NamespaceRegistry; readonly lastNumber: number } {
  let lastNumber = current.lastNumber ?? unnumbered;
  const registry = registryOf(
    [...next.values()].map((namespace) => {
      if (current.value.has(namespace.name)) return namespace;
      lastNumber = Math.max(lastNumber + 1, atLeast);
      return { ...namespace, number: lastNumber };
    }),
  );
  return { registry, lastNumber };
}

/**
 * `{"last": "1700000000002",
 * "namespaces": {"metrics": {"number": "1700000000001", "schemas": […], "completeSinceNanos": "0",
 * "goneBeforeNanos": "1690000000000000000"}},
 * "ended": {"old": {"number": "1700000000000"}}}`: those that `registry` has no more are deleted by it.
 * @param endedBeside deletions that the store does not know of
 */
export function numbersToStored(
  current: StoredRegistry,
  registry: NamespaceRegistry,
  lastNumber: number,
  endedBeside: EndedNamespaces = noneEnded,
): object {
  const { value, ended = noneEnded } = current;
  const before = numbersJson(value, current.lastNumber ?? unnumbered, ended);
  const known = joinedEnded([ended, endedBeside]);
  const json = numbersJson(registry, lastNumber, withDeleted(known, value, registry));
  return withUnreadKeys(json, before, current.unreadOfNumbers ?? []);
}

/** Of too many the ones that ended first are forgotten: who was away all the time takes them for lost. */
function withDeleted(
  ended: EndedNamespaces,
  before: NamespaceRegistry,
  next: NamespaceRegistry,
): EndedNamespaces {
  const gone = [...before.values()].filter(({ name }) => !next.has(name));
  const all = new Map(ended);
  for (const namespace of gone) all.set(namespace.name, namespaceNumber(namespace));
  // What some know to be deleted stands again where others have taken rows for it.
  for (const namespace of next.values()) {
    if (hasEnded(namespace, all)) all.delete(namespace.name);
  }
  const newest = [...all].sort(([, a], [, b]) => b - a).slice(0, endedNamespacesMax);
  return new Map(newest);
}

function numbersJson(
  registry: NamespaceRegistry,
  lastNumber: number,
  ended: EndedNamespaces,
): object {
  const numbered = [...registry.values()].filter(
    (one) => one.number !== undefined || Object.keys(rowsSinceOf(one)).length > 0,
  );
  const namespaces = numbered.map((namespace) => {
    const { name, schemas } = namespace;
    const since = Object.entries(rowsSinceOf(namespace));
    const beside = {
      number: String(namespaceNumber(namespace)),
      ...(schemas === undefined ? {} : { schemas: schemas.map(schemaToJson) }),
      ...Object.fromEntries(since.map(([key, nanos]) => [key, String(nanos)])),
    };
    return [name, beside];
  });
  const gone = [...ended].map(([name, number]) => [name, { number: String(number) }]);
  return {
    last: String(lastNumber),
    namespaces: Object.fromEntries(namespaces),
    ...(ended.size === 0 ? {} : { ended: Object.fromEntries(gone) }),
  };
}

/**
 * @param json as `numbersToStored` makes it
 * @param unread gets the keys that this version does not know
 * @throws {TsdbError} BAD_REQUEST naming the field
 */
export function withStoredNumbers(
  registry: NamespaceRegistry,
  json: unknown,
  unread: UnreadKeys[],
): {
  readonly registry: NamespaceRegistry;
  readonly lastNumber: number;
  readonly ended: EndedNamespaces;
} {
  const fields = Fields.ofStored(json, 'numbers', unread);
  const lastNumber = Number(fields.int64('last', BigInt(unnumbered)));
  const besides = new Map<string, Pick<Namespace, 'number' | 'schemas'> & RowsSince>();
  fields.record('namespaces', (item, name) => {
    const number = Number(item.int64('number', BigInt(unnumbered)));
    const schemas = item.list('schemas', schemaFromFields);
    const completeSinceNanos = item.int64('completeSinceNanos', neverNanos);
    const goneBeforeNanos = item.int64('goneBeforeNanos', neverNanos);
    item.end();
    besides.set(name, {
      number,
      ...(schemas.length === 0 ? {} : { schemas }),
      ...(completeSinceNanos === neverNanos ? {} : { completeSinceNanos }),
      ...(goneBeforeNanos === neverNanos ? {} : { goneBeforeNanos }),
    });
  });
  const ended = new Map<string, number>();
  fields.record('ended', (item, name) => {
    ended.set(name, Number(item.int64('number', BigInt(unnumbered))));
    item.end();
  });
  fields.end();
  const namespaces = [...registry.values()].map((namespace): Namespace => {
    return { ...namespace, ...besides.get(namespace.name) };
  });
  return { registry: registryOf(namespaces), lastNumber, ended };
}
