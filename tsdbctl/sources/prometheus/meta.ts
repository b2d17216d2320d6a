/** The file `meta.json` of a block. */
import type { Disk } from '#lib/env/env.ts';
import { badRequest, messageOf } from '#lib/errors.ts';
import { shownJson } from '#lib/json_fields.ts';
import { naming } from '../naming.ts';
import { type MillisRange, millisMax } from './rows.ts';

const version = 1;
const fileBytesMax = 64 << 20;
const ulidPattern = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

/** Number of a block, by when it was made, and by chance. */
export function isUlid(text: string): boolean {
  return ulidPattern.test(text);
}

export interface BlockMeta {
  readonly ulid: string;
  readonly times: MillisRange;
  /** ULIDs of the blocks out of which it was made. */
  readonly parents: readonly string[];
  /** ULIDs of the blocks that were written first, whose rows it has; its own alone when it is one of them. */
  readonly sources: readonly string[];
  /** Of all of its series, which the index does not have: as Thanos keeps them, sorted; '' for none. */
  readonly labels: string;
  /** Whose it is, as blocks of Cortex say, and first ones of Mimir; '' when it does not say. */
  readonly tenant: string;
  /** Which share of the series of its parents it has, as the compactors of Mimir and Cortex make them; null when it has all. */
  readonly share: BlockShare | null;
  /** Its rows are windows of so many milliseconds, as Thanos makes them; 0 for samples. */
  readonly windowMillis: number;
}

export interface BlockShare {
  /** From 1 on. */
  readonly place: number;
  readonly of: number;
}

/** What Mimir's compactor says of a block, beside its labels. */
const shareLabel = '__compactor_shard_id__';
const tenantLabel = '__org_id__';
/** Who wrote the block, as Cortex says: blocks of one tenant have several. */
const writerLabels: ReadonlySet<string> = new Set(['__ingester_id__', '__shard_id__']);

/** @throws {TsdbError} BAD_REQUEST, or NOT_FOUND when it was deleted meanwhile */
export async function readMeta(disk: Disk, path: string): Promise<BlockMeta> {
  const fail = (reason: string) => badRequest(`cannot read ${path}: ${reason}`);
  const size = await disk.size(path);
  if (size === null) throw fail('file is missing');
  if (size > fileBytesMax) throw fail(`file has more than ${fileBytesMax} bytes: ${size}`);
  const bytes = await naming(path, () => disk.readFile(path));
  let meta: Fields;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    meta = fieldsOf(JSON.parse(text));
  } catch (error) {
    throw fail(`file is not JSON: ${messageOf(error)}`);
  }
  if (meta['version'] !== version) {
    throw fail(`version is not ${version}: ${shownJson(meta['version'])}`);
  }
  const ulid = meta['ulid'];
  if (typeof ulid !== 'string' || !isUlid(ulid)) {
    throw fail(`ulid is not a number of a block: ${shownJson(ulid)}`);
  }
  const millisOf = (name: string): number => {
    const millis = meta[name];
    if (!Number.isInteger(millis) || !(Math.abs(millis as number) <= millisMax)) {
      throw fail(`${name} is no time in milliseconds: ${shownJson(millis)}`);
    }
    return millis as number;
  };
  const times = { start: millisOf('minTime'), end: millisOf('maxTime') };
  if (times.end < times.start) throw fail(`maxTime is before minTime: ${times.end}`);
  const { parents, sources } = fieldsOf(meta['compaction']);
  const sourcesNamed = textsOf(listOf(sources));
  const thanos = fieldsOf(meta['thanos']);
  const { [shareLabel]: share, [tenantLabel]: tenant, ...labels } = fieldsOf(thanos['labels']);
  const partition = fieldsOf(fieldsOf(thanos['extensions'])['partition_info']);
  return {
    ulid,
    times,
    parents: textsOf(listOf(parents).map((parent) => fieldsOf(parent)['ulid'])),
    sources: sourcesNamed.length > 0 ? sourcesNamed : [ulid],
    labels: Object.entries(labels)
      .filter(([name]) => !writerLabels.has(name))
      .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
      .sort()
      .join(','),
    tenant: typeof tenant === 'string' ? tenant : '',
    share: shareOf(share) ?? shareOfPartition(partition),
    windowMillis: Number(fieldsOf(thanos['downsample'])['resolution'] ?? 0),
  };
}

function shareOf(label: unknown): BlockShare | null {
  const [, place, of] = /^(\d+)_of_(\d+)$/.exec(String(label)) ?? [];
  return of === undefined ? null : { place: Number(place), of: Number(of) };
}

/** As Cortex has it: partitions count from 0, and a block that was not parted is the only one of one. */
function shareOfPartition(partition: Fields): BlockShare | null {
  const { partition_id: id, partition_count: of } = partition;
  return Number.isInteger(id) && Number(of) > 1 ? { place: Number(id) + 1, of: Number(of) } : null;
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

const textsOf = (values: readonly unknown[]): readonly string[] =>
  values.filter((value) => typeof value === 'string');

type Fields = Readonly<Record<string, unknown>>;

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}
