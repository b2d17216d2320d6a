/** Databases, placements and namespaces: the admin endpoints, each a call of the cluster room. */
import { ClusterAdmin, type AdminOptions } from '#cluster/admin/admin.ts';
import type { Kv } from '#cluster/kv/kv.ts';
import { setKvstore } from '#cluster/admin/kvstore.ts';
import type { ClusterName } from '#cluster/kv/keys.ts';
import type { InstanceInfo } from '#cluster/placement/placement.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import { adminBodyBytesMax } from './limits.ts';
import type { ApiHandler, Route } from './server.ts';
import { type ApiRequest, isTrue, jsonAnswer } from './http_api.ts';

export interface AdminApiSetup {
  readonly kv: Kv;
  readonly clock: Clock;
  /** Used unless the headers Cluster-Environment-Name and Cluster-Zone-Name name another. */
  readonly cluster: ClusterName;
  /** The instance of database/create with type local; null for the default. */
  readonly localInstance: InstanceInfo | null;
  /** Reads a namespace at a quorum of the nodes, as proof that they have it. */
  readonly prove: (namespace: string, signal: AbortSignal) => Promise<void>;
}

type AdminCall = (
  admin: ClusterAdmin,
  request: ApiRequest,
  options: AdminOptions,
) => Promise<unknown>;

/** All admin routes, each at all the paths that it is known under. */
export function adminRoutes(setup: AdminApiSetup): Route[] {
  const handler = (call: AdminCall): ApiHandler => {
    return async (request) => {
      const admin = new ClusterAdmin({
        kv: setup.kv,
        cluster: clusterOf(request, setup.cluster),
        clock: setup.clock,
        ...(setup.localInstance === null ? {} : { localInstance: setup.localInstance }),
      });
      return jsonAnswer(await call(admin, request, optionsOf(request)));
    };
  };
  const routes: Route[] = [];
  const add = (methods: Route['methods'], paths: readonly string[], call: AdminCall): void => {
    for (const path of paths) routes.push({ methods, path, handler: handler(call) });
  };
  const placement = (rest = ''): string[] => [
    `/api/v1/services/tsdb/placement${rest}`,
    `/api/v1/placement${rest}`,
  ];
  const namespace = (rest = ''): string[] => [
    `/api/v1/services/tsdb/namespace${rest}`,
    `/api/v1/namespace${rest}`,
  ];

  add(
    ['POST'],
    ['/api/v1/database/create', '/api/v1/database/namespace/create'],
    async (admin, request, options) =>
      admin.databaseCreate(await jsonBody(request), options, request.signal),
  );

  routes.push({
    methods: ['POST'],
    path: '/api/v1/kvstore',
    handler: async (request) => {
      const target = { kv: setup.kv, cluster: clusterOf(request, setup.cluster) };
      const body = await jsonBody(request);
      return jsonAnswer(await setKvstore(target, body, optionsOf(request), request.signal));
    },
  });

  add(['GET'], placement(), (admin, request) =>
    admin.placementGet(versionOf(request), request.signal),
  );
  add(['POST'], placement(), async (admin, request, options) =>
    admin.placementAdd(await jsonBody(request), options, request.signal),
  );
  add(['DELETE'], placement(), (admin, request, options) =>
    admin.placementDelete(options, request.signal),
  );
  add(['POST'], placement('/init'), async (admin, request, options) =>
    admin.placementInit(await jsonBody(request), options, request.signal),
  );
  add(['POST'], placement('/remove'), async (admin, request, options) =>
    admin.placementRemove(await jsonBody(request), options, request.signal),
  );
  add(['POST'], placement('/replace'), async (admin, request, options) =>
    admin.placementReplace(await jsonBody(request), options, request.signal),
  );
  add(['POST'], placement('/set'), async (admin, request, options) =>
    admin.placementSet(await jsonBody(request), options, request.signal),
  );
  add(['DELETE'], placement('/{id}'), (admin, request, options) =>
    admin.placementRemoveInstance(request.pathParameters['id']!, options, request.signal),
  );

  add(['GET'], namespace(), (admin, request) =>
    admin.namespaceGet(isTrue(request.urlParameters.get('debug') ?? ''), request.signal),
  );
  add(['POST'], namespace(), async (admin, request, options) =>
    admin.namespaceAdd(await jsonBody(request), options, request.signal),
  );
  add(['PUT'], namespace(), async (admin, request, options) =>
    admin.namespaceUpdate(await jsonBody(request), options, request.signal),
  );
  add(['POST'], namespace('/ready'), async (admin, request, options) => {
    const body = await jsonBody(request);
    const own =
      admin.cluster.environment === setup.cluster.environment &&
      admin.cluster.zone === setup.cluster.zone;
    const prove = own
      ? setup.prove
      : () =>
          Promise.reject(
            badRequest('cannot prove a namespace of another environment or zone: use force'),
          );
    return admin.namespaceReady(body, options, prove, request.signal);
  });
  add(['DELETE'], namespace('/{id}'), (admin, request, options) =>
    admin.namespaceDelete(request.pathParameters['id']!, options, request.signal),
  );
  return routes;
}

function clusterOf(request: ApiRequest, own: ClusterName): ClusterName {
  return {
    environment: request.header('cluster-environment-name') || own.environment,
    zone: request.header('cluster-zone-name') || own.zone,
  };
}

function optionsOf(request: ApiRequest): AdminOptions {
  return {
    dryRun: isTrue(request.header('dry-run')),
    force: isTrue(request.header('force')) || isTrue(request.urlParameters.get('force') ?? ''),
  };
}

function versionOf(request: ApiRequest): number | null {
  const text = request.urlParameters.get('version') ?? '';
  if (text === '') return null;
  if (!/^\d{1,15}$/.test(text)) throw badRequest(`version: not a whole number: ${text}`);
  return Number(text);
}

/** @throws {TsdbError} BAD_REQUEST when the body is not JSON */
export async function jsonBody(
  request: ApiRequest,
  bytesMax: number = adminBodyBytesMax,
): Promise<unknown> {
  const body = await request.body(bytesMax);
  if (body.length === 0) throw badRequest('the request body is empty: JSON is expected');
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body)) as unknown;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw badRequest(`the request body is not JSON: ${reason}`, { cause: error });
  }
}
