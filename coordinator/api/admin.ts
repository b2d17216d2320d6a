/** Databases, placements and namespaces: the admin endpoints, each a call of the cluster room. */
import { ClusterAdmin, type AdminOptions } from '#cluster/admin/admin.ts';
import type { Kv } from '#cluster/kv/kv.ts';
import { setKvstore } from '#cluster/admin/kvstore.ts';
import type { ClusterName } from '#cluster/kv/keys.ts';
import type { NodeService } from '#cluster/node/service.ts';
import type { Instance, InstanceInfo } from '#cluster/placement/placement.ts';
import type { Clock, Random } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import {
  type ApiRequest,
  isTrue,
  jsonAnswer,
  type JsonHandler,
  type PlainHandler,
} from '../http/http_api.ts';
import { wholeNumber } from './parameters.ts';

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
interface AdminCall {
  readonly setup: AdminApiSetup;
  readonly admin: ClusterAdmin;
  /** `dryRun` and `force`. */
  readonly options: AdminOptions;
  /** The path's last part, where the route names it. */
  readonly id: string;
  readonly urlParameters: URLSearchParams;
  readonly signal: AbortSignal;
}

type AdminPlain = PlainHandler<AdminApiSetup>;
type AdminJson = JsonHandler<AdminApiSetup>;

function adminCallOf(setup: AdminApiSetup, request: ApiRequest): AdminCall {
  const { kv, ownKv, clock, random, localInstance, writtenVersion, nodeOf } = setup;
  const { pathParameters, urlParameters, signal } = request;
  const cluster = clusterOf(request, setup.cluster);
  const isOfOwn = isOwn(setup, cluster);
  const admin = new ClusterAdmin({
    kv: isOfOwn ? ownKv : kv,
    cluster,
    clock,
    random,
    writtenVersion,
    ...(localInstance === null ? {} : { localInstance }),
    ...(isOfOwn ? { nodeOf } : {}),
  });
  const options = optionsOf(request);
  return { setup, admin, options, id: pathParameters['id'] ?? '', urlParameters, signal };
}

/** Answers with what the call of the cluster room gives. */
function plainCall(run: (call: AdminCall) => Promise<unknown>): AdminPlain {
  return async (setup, request) => jsonAnswer(await run(adminCallOf(setup, request)));
}

function jsonCall(run: (call: AdminCall, body: unknown) => Promise<unknown>): AdminJson {
  return async (setup, request, body) => jsonAnswer(await run(adminCallOf(setup, request), body));
}

export const databaseCreate: AdminJson = jsonCall(({ admin, options, signal }, body) =>
  admin.databaseCreate(body, options, signal),
);

export const kvstore: AdminJson = jsonCall(({ setup: { kv }, admin, options, signal }, body) =>
  setKvstore({ kv, cluster: admin.cluster }, body, options, signal),
);

export const placementGet: AdminPlain = plainCall(({ admin, urlParameters, signal }) =>
  admin.placementGet(versionOf(urlParameters), signal),
);

export const placementAdd: AdminJson = jsonCall(({ admin, options, signal }, body) =>
  admin.placementAdd(body, options, signal),
);

export const placementDelete: AdminPlain = plainCall(({ admin, options, signal }) =>
  admin.placementDelete(options, signal),
);

export const placementInit: AdminJson = jsonCall(({ admin, options, signal }, body) =>
  admin.placementInit(body, options, signal),
);

export const placementRemove: AdminJson = jsonCall(({ admin, options, signal }, body) =>
  admin.placementRemove(body, options, signal),
);

export const placementReplace: AdminJson = jsonCall(({ admin, options, signal }, body) =>
  admin.placementReplace(body, options, signal),
);

export const placementReset: AdminJson = jsonCall(({ setup, admin, options, signal }, body) =>
  admin.placementReset(body, options, setup.isAnswering, signal),
);

export const placementApprove: AdminJson = jsonCall(({ admin, options, signal }, body) =>
  admin.placementApprove(body, options, signal),
);

export const placementSet: AdminJson = jsonCall(({ admin, options, signal }, body) =>
  admin.placementSet(body, options, signal),
);

export const placementRemoveInstance: AdminPlain = plainCall(({ admin, id, options, signal }) =>
  admin.placementRemoveInstance(id, options, signal),
);

export const namespaceGet: AdminPlain = plainCall(({ admin, urlParameters, signal }) =>
  admin.namespaceGet(isTrue(urlParameters.get('debug') ?? ''), signal),
);

export const namespaceAdd: AdminJson = jsonCall(({ admin, options, signal }, body) =>
  admin.namespaceAdd(body, options, signal),
);

export const namespaceUpdate: AdminJson = jsonCall(({ admin, options, signal }, body) =>
  admin.namespaceUpdate(body, options, signal),
);

export const namespaceReady: AdminJson = jsonCall(({ setup, admin, options, signal }, body) => {
  const refuse = () =>
    Promise.reject(
      badRequest('cannot prove a namespace of another environment or zone: use force'),
    );
  return admin.namespaceReady(
    body,
    options,
    isOwn(setup, admin.cluster) ? setup.prove : refuse,
    signal,
  );
});

export const namespaceDelete: AdminPlain = plainCall(({ setup, admin, id, options, signal }) => {
  setup.checkClock('delete a namespace');
  return admin.namespaceDelete(id, options, signal);
});

export const schemaDeploy: AdminJson = jsonCall(({ admin, options, signal }, body) =>
  admin.schemaDeploy(body, options, signal),
);

export const schemaReset: AdminJson = jsonCall(({ admin, options, signal }, body) =>
  admin.schemaReset(body, options, signal),
);

export const schemaGet: AdminPlain = plainCall(({ admin, urlParameters, signal }) =>
  admin.schemaGet(urlParameters.get('name') ?? '', signal),
);

export const healthGet: AdminPlain = plainCall(({ admin, signal }) => admin.healths(signal));

export const upgradeGet: AdminPlain = plainCall(({ admin, signal }) => admin.upgradeStatus(signal));

export const upgradeFinish: AdminPlain = plainCall(({ admin, options, signal }) =>
  admin.upgradeFinish(options, signal),
);

function isOwn({ cluster }: AdminApiSetup, { environment, zone }: ClusterName): boolean {
  return environment === cluster.environment && zone === cluster.zone;
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

function versionOf(parameters: URLSearchParams): number | null {
  const text = parameters.get('version') ?? '';
  return text === '' ? null : wholeNumber(text, 'version');
}
