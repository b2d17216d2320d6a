/**
 * Lineages of a key-value store: one history of it is told from another. A store that is restored
 * from a backup has forgotten what came since, and goes on from there; one that is made anew knows
 * nothing. What a process knows of the store is compared with what it reads; who finds that the
 * one does not follow from the other gives the store a lineage of its own, which awaits approval by
 * people: until then nobody changes placement or namespaces, and everybody goes on by what it knew.
 */
import { TsdbError } from '#lib/errors.ts';
import { Fields } from '../fields.ts';
import { lineagesMax } from '../limits.ts';
import type { KeyValue } from './kv.ts';
import { decodeStored } from './stored_json.ts';

/** What the store says of its lineage. */
export interface StoreLineage {
  /** '' for a store that was never told from another one. */
  readonly id: string;
  /** Lineages that this one goes on from once it is approved, the oldest first. */
  readonly follows: readonly string[];
  /** Who knows a lineage before this one goes on by what it knows. */
  readonly awaitsApproval: boolean;
  /** Of its key; 0 when there is none. */
  readonly modRevision: number;
}

export const firstLineage: StoreLineage = {
  id: '',
  follows: [],
  awaitsApproval: false,
  modRevision: 0,
};

/** @param item null when there is none. @throws {TsdbError} INTERNAL naming the key when it is damaged */
export function storedLineage(item: KeyValue | null): StoreLineage {
  if (item === null) return firstLineage;
  const { value, modRevision } = decodeStored(item, (json, unread) => {
    const fields = Fields.ofStored(json, 'lineage', unread);
    const id = fields.string('id', '');
    const follows = fields.strings('follows');
    const awaitsApproval = fields.boolean('awaitsApproval', false);
    fields.end();
    return { id, follows, awaitsApproval };
  });
  return { ...value, modRevision };
}

/** `{"id": "…", "follows": ["", "…"], "awaitsApproval": true}` */
export function lineageToStored({ id, follows, awaitsApproval }: StoreLineage): object {
  // The last place of each is its place: an approval names those that were known behind.
  const known = follows.filter((other, i) => other !== id && follows.lastIndexOf(other) === i);
  return { id, follows: known.slice(-lineagesMax), awaitsApproval };
}

/**
 * The lineage of a store that does not follow from what a process knows.
 * @param forgotten lineages that the store does not know any more: they came after all that it has
 */
export function nextLineage(
  stored: StoreLineage,
  id: string,
  forgotten: readonly string[] = [],
): StoreLineage {
  const follows = [...stored.follows, stored.id, ...forgotten];
  return { ...stored, id, follows, awaitsApproval: true };
}

/** @throws {TsdbError} CONFLICT that says what to do */
export function refuseUnapproved({ awaitsApproval }: StoreLineage): void {
  if (!awaitsApproval) return;
  throw new TsdbError(
    'CONFLICT',
    'the key-value store was restored or made anew, and nothing is changed before its placement is approved: tsdbctl placement approve',
  );
}

/** A key as it was read, or noted of a watch. */
export interface SeenKey {
  readonly item: Omit<KeyValue, 'key' | 'leaseId'> | null;
  /** Of the change that was seen; of the store, when the key was not there. */
  readonly modRevision: number;
}

/**
 * Why what is read now cannot be a later state of what was seen before the read began; null when it
 * can. Reads are linearizable, so that nobody reads what was before.
 */
export function breakBetween(seen: SeenKey, now: SeenKey): string | null {
  const { item: before, modRevision: seenAt } = seen;
  const { item: after, modRevision: nowAt } = now;
  if (nowAt < seenAt) return `it is as of revision ${nowAt}, and was as of ${seenAt}`;
  if (before === null) {
    if (after === null || after.createRevision > seenAt) return null;
    return `it was made in revision ${after.createRevision}, and not there in ${seenAt}`;
  }
  if (after === null) return nowAt > seenAt ? null : `it is gone in revision ${nowAt}`;
  if (after.createRevision === before.createRevision) {
    // Each change of a key counts one, and has a revision of its own.
    const changes = after.version - before.version;
    const revisions = after.modRevision - before.modRevision;
    const isSame = changes === 0 && revisions === 0;
    if (isSame && Buffer.compare(before.value, after.value) === 0) return null;
    if (changes > 0 && changes <= revisions) return null;
    if (isSame) return `it has another value of revision ${nowAt}`;
    return `it has version ${after.version} of revision ${after.modRevision}, and had ${before.version} of ${before.modRevision}`;
  }
  if (after.createRevision > before.modRevision) return null;
  return `it was made in revision ${after.createRevision}, and in ${before.createRevision} before`;
}
