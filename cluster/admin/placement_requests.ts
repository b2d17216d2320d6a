/** What requests about placements have in common, whichever service they are of. */
import { badRequest, shownText } from '#lib/errors.ts';
import { Fields } from '../fields.ts';
import { endpointProblem } from '../names.ts';
import {
  type InstanceInfo,
  instanceInfoOf,
  type Placement,
  placementFromJson,
  type PlacementJson,
  placementToJson,
  type VersionedPlacement,
} from '../placement/placement.ts';
import { alreadyExists, type PlacementStore } from '../placement/store.ts';

/** Of the headers `Dry-Run` and `Force`. */
export interface AdminOptions {
  /** Compute the answer and write nothing. */
  readonly dryRun: boolean;
  /**
   * Change a placement although shards are still on their way; ready a namespace without proof; change a retention by which
   * rules name a namespace.
   */
  readonly force: boolean;
}

export const plainRequest: AdminOptions = { dryRun: false, force: false };

export interface PlacementAnswer {
  readonly placement: PlacementJson;
  readonly version: number;
  /** Only when so: the key-value store has gone back, and nothing is changed before its approval. */
  readonly awaitsApproval?: true;
}

export function placementAnswer({ placement, version }: VersionedPlacement): PlacementAnswer {
  return { placement: placementToJson(placement), version };
}

/** @throws {TsdbError} BAD_REQUEST naming the field */
export function instancesOf(fields: Fields, key: string, zone: string): InstanceInfo[] {
  return fields.list(key, (item, index) => {
    const info = instanceInfoOf(item);
    item.end();
    // Before anybody is asked there.
    const problem = endpointProblem('endpoint', info.endpoint);
    if (problem !== null) throw badRequest(`${key}[${index}].${problem}`);
    return inZone(info, zone, `${key}[${index}]`);
  });
}

/** An instance whose zone is missing is in the service's zone; one of another zone is refused. */
function inZone(info: InstanceInfo, zone: string, path: string): InstanceInfo {
  if (info.zone === '') return { ...info, zone };
  if (info.zone === zone) return info;
  throw badRequest(
    `${path}.zone differs from the zone of the service, ${zone}: ${shownText(info.zone)}`,
  );
}

export function forceOf(fields: Fields, options: AdminOptions): boolean {
  return fields.boolean('force', false) || options.force;
}

/** Of a replacement, under either of its names. */
export function leavingIdsOf(fields: Fields): string[] {
  return [...fields.strings('leavingInstanceIDs'), ...fields.strings('leavingInstanceIds')];
}

/** A step from the placement that stands; under `dryRun` only what it would come to. */
export async function changePlacement(
  store: PlacementStore,
  step: (placement: Placement) => Placement,
  { dryRun }: AdminOptions,
  signal: AbortSignal,
): Promise<PlacementAnswer> {
  if (!dryRun) return placementAnswer(await store.update(step, signal));
  const { value, version } = await store.require(signal);
  return placementAnswer({ placement: step(value), version: version + 1 });
}

/**
 * `{placement, version, confirm, force}`. Without `confirm` nothing is written. The version must be the one that stands.
 * @param problemOf the first rule that a placement breaks
 */
export async function setPlacement(
  store: PlacementStore,
  body: unknown,
  problemOf: (placement: Placement, force: boolean) => string | null,
  options: AdminOptions,
  signal: AbortSignal,
): Promise<PlacementAnswer & { dryRun: boolean }> {
  const fields = Fields.of(body, '');
  const given = fields.any('placement');
  const expected = fields.uint('version', 0);
  const dryRun = !fields.boolean('confirm', false) || options.dryRun;
  const force = forceOf(fields, options);
  fields.end();
  const placement = placementFromJson(given);
  for (const { id, endpoint } of placement.instances) {
    const wrong = endpointProblem(`endpoint of instance ${id}`, endpoint);
    if (wrong !== null) throw badRequest(`placement: ${wrong}`);
  }
  const problem = problemOf(placement, force);
  if (problem !== null) throw badRequest(`placement: ${problem}`);
  const current = await store.get(signal);
  const next = { placement, version: current.value === null ? 0 : current.version + 1 };
  if (dryRun) return { ...placementAnswer(next), dryRun };
  if (current.version !== expected) {
    throw badRequest(`version is not the current one, ${current.version}: ${expected}`);
  }
  const { compares, operations } = store.writing(current, placement);
  const { succeeded } = await store.kv.transact(compares, operations, signal);
  if (!succeeded) throw alreadyExists();
  return { ...placementAnswer({ placement, version: current.version + 1 }), dryRun };
}

export async function deletePlacement(
  store: PlacementStore,
  { dryRun }: AdminOptions,
  signal: AbortSignal,
): Promise<{ deleted: boolean }> {
  if (dryRun) await store.require(signal);
  else await store.delete(signal);
  return { deleted: true };
}
