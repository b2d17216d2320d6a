/**
 * What a data folder holds: shards and namespaces whose rows may be in its log and its filesets
 * (docs/formats/parked.md). Written before rows of more are taken, and when some have left for good, so
 * that a start knows what a placement has taken away meanwhile.
 */
import { Fields } from '#cluster/fields.ts';
import { registryFromJson, registryToStored } from '#cluster/namespaces/json.ts';
import { type NamespaceRegistry, registryOf } from '#cluster/namespaces/namespaces.ts';
import { rangesOf, shardsOfRanges } from '#cluster/placement/shard_ranges.ts';
import type { Disk } from '#lib/env/env.ts';
import { readCheckedJson, writeCheckedJson } from './checked_json.ts';

export const heldFile = 'held.json';

const formatVersion = 1;

/** Shards are those of a placement with so many of them, in each of the namespaces. */
export interface Held {
  /** 0 when there are none. */
  readonly shardCount: number;
  readonly shards: ReadonlySet<number>;
  /** As they were known last; their numbers tell them from others of the same name. */
  readonly namespaces: NamespaceRegistry;
}

export async function writeHeld(disk: Disk, dataFolder: string, held: Held): Promise<void> {
  const { shardCount, shards, namespaces } = held;
  const numbered = [...namespaces.values()].filter(({ number }) => number !== undefined);
  await writeCheckedJson(disk, `${dataFolder}/${heldFile}`, {
    version: formatVersion,
    shardCount,
    shards: rangesOf([...shards].sort((a, b) => a - b)),
    ...registryToStored(namespaces),
    numbers: Object.fromEntries(numbered.map(({ name, number }) => [name, String(number)])),
  });
}

/**
 * @returns null when there is no file, as in a folder of an earlier release
 * @throws {Error} when it is damaged, and what the disk rejects with
 */
export async function readHeld(disk: Disk, dataFolder: string): Promise<Held | null> {
  const json = await readCheckedJson(disk, `${dataFolder}/${heldFile}`);
  if (json === null) return null;
  const { namespaces, numbers, ...rest } = json as Record<string, unknown>;
  const fields = Fields.ofStored(rest, 'held', []);
  const version = fields.uint('version', 0);
  if (version !== formatVersion) throw new Error(`format version is unknown: ${version}`);
  const ranges = fields.string('shards', '');
  const shards = ranges === '' ? [] : shardsOfRanges(ranges);
  if (shards === null) throw new Error(`not ranges of shards: ${ranges}`);
  const numberOf = (name: string): number | undefined => {
    const text = (numbers as Record<string, unknown>)[name];
    return text === undefined ? undefined : Number(text);
  };
  const registry = registryFromJson({ namespaces }, []);
  return {
    shardCount: fields.uint('shardCount', 0),
    shards: new Set(shards),
    namespaces: registryOf(
      [...registry.values()].map(({ name, options }) => {
        const number = numberOf(name);
        return number === undefined ? { name, options } : { name, options, number };
      }),
    ),
  };
}
