/**
 * What a node knew last of the key-value store, in its data folder: placement and namespaces that it
 * has adopted, with their revisions and the lineage. By it a start tells a store that went back
 * (cluster/kv/lineage.ts) from one that went on, and goes on by what it knew.
 */
import type { KeyValue } from '#cluster/kv/kv.ts';
import type { KnownStore } from '#cluster/topology/topology.ts';
import type { Disk } from '#lib/env/env.ts';
import { isUnreadable } from '#lib/env/unreadable.ts';
import { messageOf } from '#lib/errors.ts';
import { crc32c } from '#lib/hashing/crc32c.ts';
import type { Log } from '#lib/log.ts';

export const knownStoreFile = 'known_store.json';

const decoder = new TextDecoder();
const encoder = new TextEncoder();

interface StoredItem extends Omit<KeyValue, 'value'> {
  readonly value: string;
}

const itemNames = ['placement', 'assignments', 'namespaces', 'numbers'] as const;

/** What the folder says; one that is damaged says nothing, as one of a release that kept none. */
export async function readKnownStore(
  disk: Disk,
  log: Log,
  dataFolder: string,
): Promise<KnownStore | null> {
  const path = `${dataFolder}/${knownStoreFile}`;
  if ((await disk.size(path)) === null) return null;
  try {
    return decodeKnownStore(await disk.readFile(path));
  } catch (error) {
    if (!(error instanceof SyntaxError || isUnreadable(error))) throw error;
    log.error(
      { path, error: messageOf(error) },
      'what was known of the key-value store is damaged',
    );
    return null;
  }
}

export async function writeKnownStore(
  disk: Disk,
  dataFolder: string,
  known: KnownStore,
): Promise<void> {
  await disk.writeFileAtomic(`${dataFolder}/${knownStoreFile}`, encodeKnownStore(known));
}

/** Two lines: the CRC-32C of the second one, and that. */
export function encodeKnownStore(known: KnownStore): Uint8Array {
  const { lineageId, revision } = known;
  const items = itemNames.map((name) => [name, plainOf(known[name])]);
  const body = JSON.stringify({ lineageId, revision, ...Object.fromEntries(items) });
  return encoder.encode(`${crc32c(encoder.encode(body)).toString(16)}\n${body}\n`);
}

/** @throws {SyntaxError} when it is damaged */
export function decodeKnownStore(bytes: Uint8Array): KnownStore {
  const [sum, body = ''] = decoder.decode(bytes).split('\n');
  if (crc32c(encoder.encode(body)).toString(16) !== sum) throw new SyntaxError('wrong checksum');
  const json = JSON.parse(body) as Record<(typeof itemNames)[number], StoredItem | null> &
    Pick<KnownStore, 'lineageId' | 'revision'>;
  const { lineageId, revision, placement, assignments, namespaces, numbers } = json;
  return {
    lineageId,
    revision,
    placement: itemOf(placement),
    assignments: itemOf(assignments),
    namespaces: itemOf(namespaces),
    numbers: itemOf(numbers),
  };
}

function plainOf(item: KeyValue | null): StoredItem | null {
  return item === null ? null : { ...item, value: decoder.decode(item.value) };
}

function itemOf(item: StoredItem | null): KeyValue | null {
  return item === null ? null : { ...item, value: encoder.encode(item.value) };
}
