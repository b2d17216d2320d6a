/** Databases, placements and namespaces: the admin endpoints, each a call of the cluster room. */
import { setKvstore } from '#cluster/admin/kvstore.ts';
import { badRequest } from '#lib/errors.ts';
import { wholeNumber } from '../http/whole_number.ts';
import { isTrue, jsonAnswer, type JsonHandler, type PlainHandler } from '../http/http_api.ts';
import { type AdminApiSetup, type AdminCall, adminCallOf, isOwn } from './call.ts';

type AdminPlain = PlainHandler<AdminApiSetup>;
type AdminJson = JsonHandler<AdminApiSetup>;

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
  admin.namespaceGet(
    isTrue(urlParameters.get('debug') ?? ''),
    signal,
    isTrue(urlParameters.get('numbers') ?? ''),
  ),
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

function versionOf(parameters: URLSearchParams): number | null {
  const text = parameters.get('version') ?? '';
  return text === '' ? null : wholeNumber(text, 'version');
}
