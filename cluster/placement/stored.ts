/**
 * A placement as it is kept in the key-value store: the JSON of the API, but shards of one kind
 * together. A store takes values up to about a megabyte, and 4096 shards one by one would be
 * larger.
 *
 *     "shards": [{"state": "AVAILABLE", "sourceId": "", "cutoverNanos": "0", "cutoffNanos": "0", "ids": "0-5,9"}, …]
 *
 * The version of a placement is that of its key, so that each write raises it by one, and
 * `versionOffset` more: after an approval it goes on above all that anybody knew of it before.
 */
import { Fields } from '../fields.ts';
import type { Stored } from '../kv/stored_json.ts';
import { type UnreadKeys, withUnreadKeys } from '../unread_keys.ts';
import {
  type Instance,
  instanceInfoOf,
  type Placement,
  placementToJson,
  readPlacement,
  type Shard,
} from './placement.ts';
import { rangesOf, shardsOfRanges } from './shard_ranges.ts';

export interface ReadPlacement {
  readonly placement: Placement;
  /** By how much its version is above that of its key. */
  readonly versionOffset: number;
}

/**
 * @param before the one that stands, whose unread keys stay with their instances and shards; null
 *   when there is none
 */
export function placementToStored(
  placement: Placement,
  before: (Pick<Stored<unknown>, 'unread'> & Pick<ReadPlacement, 'versionOffset'>) | null,
): object {
  const isOfShard = ({ steps }: UnreadKeys): boolean => steps[2] === 'shards';
  const unread = before?.unread ?? [];
  const unreadOfShards = Map.groupBy(unread.filter(isOfShard), ({ steps }) => steps[1]);
  const json = placementToJson({
    ...placement,
    instances: placement.instances.map((instance) => ({ ...instance, shards: [] })),
  });
  const instances = Object.fromEntries(
    placement.instances.map(({ id, shards }) => [
      id,
      { ...json.instances[id], shards: groupsOf(shards, unreadOfShards.get(id) ?? []) },
    ]),
  );
  const others = unread.filter((each) => !isOfShard(each));
  const versionOffset = before?.versionOffset ?? 0;
  // Release 0.1.0 refuses keys that it does not know.
  const offset = versionOffset === 0 ? {} : { versionOffset };
  return withUnreadKeys({ ...json, instances, ...offset }, null, others);
}

/**
 * @param unread gets the keys that this version does not know; those of a group of shards for each
 *   shard, under `instances`, the instance's ID, `shards`, the shard's ID
 * @throws {TsdbError} BAD_REQUEST naming the field
 */
export function placementFromStored(json: unknown, unread: UnreadKeys[]): Placement {
  return readStoredPlacement(json, unread).placement;
}

/** As `placementFromStored`, with what is stored beside it. */
export function readStoredPlacement(json: unknown, unread: UnreadKeys[]): ReadPlacement {
  const found: UnreadKeys[] = [];
  const shardsOfGroups = new Map<string, readonly Shard[]>();
  const root = Fields.ofStored(json, 'placement', found);
  const versionOffset = root.uint('versionOffset', 0);
  const placement = readPlacement(root, (fields): Instance => {
    const info = instanceInfoOf(fields);
    const shards = fields.list('shards', (group, index) => {
      const ofGroup = shardsOfGroup(group);
      shardsOfGroups.set(`${info.id}/${index}`, ofGroup);
      return ofGroup;
    });
    fields.constant('subclusterId', 0);
    fields.end();
    return { ...info, shards: shards.flat().sort((a, b) => a.id - b.id) };
  });
  for (const { steps, keys } of found) {
    const [, instanceId, member, index] = steps;
    if (member !== 'shards') unread.push({ steps, keys });
    else {
      for (const { id } of shardsOfGroups.get(`${instanceId}/${index}`)!) {
        unread.push({ steps: ['instances', instanceId!, 'shards', id], keys });
      }
    }
  }
  return { placement, versionOffset };
}

/** Shards with the same fields, unread ones too, are one group. */
function groupsOf(shards: readonly Shard[], unread: readonly UnreadKeys[]): object[] {
  const unreadOf = new Map(unread.map(({ steps, keys }) => [steps[3], keys]));
  const groups = new Map<string, { kind: object; ids: number[] }>();
  for (const { id, state, sourceId, cutoverNanos, cutoffNanos } of shards) {
    const kind = {
      ...unreadOf.get(id),
      state,
      sourceId,
      cutoverNanos: String(cutoverNanos),
      cutoffNanos: String(cutoffNanos),
    };
    const key = JSON.stringify(kind);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { kind, ids: [id] });
    else group.ids.push(id);
  }
  return [...groups.values()].map(({ kind, ids }) => ({ ...kind, ids: rangesOf(ids) }));
}

function shardsOfGroup(fields: Fields): Shard[] {
  const kind = {
    state: fields.oneOf('state', ['INITIALIZING', 'AVAILABLE', 'LEAVING'], 'INITIALIZING'),
    sourceId: fields.string('sourceId', ''),
    cutoverNanos: fields.int64('cutoverNanos', 0n),
    cutoffNanos: fields.int64('cutoffNanos', 0n),
  };
  const text = fields.string('ids', '');
  fields.end();
  const ids = shardsOfRanges(text);
  if (ids === null) throw fields.bad('ids', 'not ranges of shards such as "0-5,9"', text);
  return ids.map((id) => ({ id, ...kind }));
}
