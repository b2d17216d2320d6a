/** What requests about placements have in common, whichever service they are of. */
import { badRequest, shownText } from '#lib/errors.ts';
import type { Fields } from '../fields.ts';
import { endpointProblem } from '../names.ts';
import {
  type InstanceInfo,
  instanceInfoOf,
  type PlacementJson,
  placementToJson,
  type VersionedPlacement,
} from '../placement/placement.ts';

/** Of the headers `Dry-Run` and `Force`. */
export interface AdminOptions {
  /** Compute the answer and write nothing. */
  readonly dryRun: boolean;
  /** Change a placement although shards are still on their way; ready a namespace without proof. */
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
