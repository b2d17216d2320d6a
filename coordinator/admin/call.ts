/** Requests of the admin API: which cluster they are about, and how they are to be carried out. */
import { ClusterAdmin } from '#cluster/admin/admin.ts';
import { type AdminOptions } from '#cluster/admin/placement_requests.ts';
import type { Kv } from '#cluster/kv/kv.ts';
import type { ClusterName } from '#cluster/kv/keys.ts';
import type { NodeService } from '#cluster/node/service.ts';
import type { Instance, InstanceInfo } from '#cluster/placement/placement.ts';
import type { Clock, Random } from '#lib/env/env.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import {
  type ApiRequest,
  booleanOf,
  isTrue,
  type NamedHeader,
  namedHeaders,
} from '../http/http_api.ts';

export interface AdminApiSetup {
  readonly kv: Kv;
  /** For changes of `cluster`: looks first whether the store has gone back (#cluster/kv/looking_first.ts). */
  readonly ownKv: Kv;
  readonly clock: Clock;
  /** Used unless the headers Cluster-Environment-Name and Cluster-Zone-Name name another. */
  readonly cluster: ClusterName;
  readonly random: Random;
  /** The instance of database/create with type local; null for the default. */
  readonly localInstance: InstanceInfo | null;
  /** As of `DeletionLog`. */
  readonly writtenVersion: () => number;
  /** As in `DeletionApiSetup`. */
  readonly checkClock: (what: string) => void;
  /** Reads a namespace at a quorum of the nodes, as proof that they have it. */
  readonly prove: (namespace: string, signal: AbortSignal) => Promise<void>;
  /** Whether the process of an instance answers. */
  readonly isAnswering: (instance: Instance, signal: AbortSignal) => Promise<boolean>;
  /** The service of an instance of `cluster`. */
  readonly nodeOf: (instance: Instance) => Pick<NodeService, 'health'>;
}

/** A request, with the cluster that its headers name. */
export interface AdminCall {
  readonly setup: AdminApiSetup;
  readonly admin: ClusterAdmin;
  /** For changes of the cluster that the request is about. */
  readonly kv: Kv;
  /** `dryRun` and `force`. */
  readonly options: AdminOptions;
  /** The path's last part, where the route names it. */
  readonly id: string;
  readonly urlParameters: URLSearchParams;
  readonly signal: AbortSignal;
}

export function adminCallOf(setup: AdminApiSetup, request: ApiRequest): AdminCall {
  const { clock, random, localInstance, writtenVersion, nodeOf } = setup;
  const { pathParameters, urlParameters, signal } = request;
  const cluster = clusterOf(request, setup.cluster);
  const isOfOwn = isOwn(setup, cluster);
  const kv = isOfOwn ? setup.ownKv : setup.kv;
  const admin = new ClusterAdmin({
    kv,
    cluster,
    clock,
    random,
    writtenVersion,
    ...(localInstance === null ? {} : { localInstance }),
    ...(isOfOwn ? { nodeOf } : {}),
  });
  const options = optionsOf(request);
  return { setup, admin, kv, options, id: pathParameters['id'] ?? '', urlParameters, signal };
}

export function isOwn({ cluster }: AdminApiSetup, { environment, zone }: ClusterName): boolean {
  return environment === cluster.environment && zone === cluster.zone;
}

function clusterOf(request: ApiRequest, own: ClusterName): ClusterName {
  return {
    environment: adminHeader(request, 'Cluster-Environment-Name').value || own.environment,
    zone: adminHeader(request, 'Cluster-Zone-Name').value || own.zone,
  };
}

function optionsOf(request: ApiRequest): AdminOptions {
  return {
    dryRun: flagOf(request, 'Dry-Run'),
    force: flagOf(request, 'Force') || isTrue(request.urlParameters.get('force') ?? ''),
  };
}

/** What is meant to say yes, and does not, would have a change made that nobody wanted. */
function flagOf(request: ApiRequest, header: string): boolean {
  const { name, value } = adminHeader(request, header);
  return value !== '' && booleanOf(value, `header ${name}`);
}

/**
 * M3 has these headers without a prefix; with one they are passed over by nobody who has read how all others are called.
 * @returns an empty value where the request does not have it
 * @throws {TsdbError} BAD_REQUEST when it has several that say different things
 */
function adminHeader(request: ApiRequest, name: string): NamedHeader {
  const bare = { name, value: request.header(name.toLowerCase()) };
  const given = [bare, ...namedHeaders(request, name)].filter(({ value }) => value !== '');
  const [first = bare, ...others] = given;
  const other = others.find(({ value }) => value !== first.value);
  if (other === undefined) return first;
  throw badRequest(
    `header ${other.name}: other than ${first.name}: ${shownText(other.value)} and ${shownText(first.value)}`,
  );
}
