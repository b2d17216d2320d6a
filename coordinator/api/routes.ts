/** The whole HTTP API as one table. */
import { adminRoutes, type AdminApiSetup } from './admin.ts';
import { compatRoutes, type CompatApiSetup } from './compat.ts';
import { type DeletionApiSetup, deletionRoutes } from './deletions.ts';
import { refuseUnsupportedHeaders } from './http_api.ts';
import { labelsRoutes, type LabelsApiSetup } from './labels.ts';
import { opsRoutes, type OpsApiSetup } from './ops.ts';
import { queryRoutes, type QueryApiSetup } from './query.ts';
import { remoteReadRoutes } from './remote_read.ts';
import { type StatusApiSetup, statusRoutes } from './status.ts';
import { writeRoutes } from './write.ts';
import type { Ingest } from '../ingest/ingest.ts';
import type { Route } from './server.ts';

export interface ApiSetup {
  readonly admin: AdminApiSetup;
  readonly ingest: Ingest;
  readonly writeBodyBytesMax: number;
  readonly query: QueryApiSetup;
  readonly labels: LabelsApiSetup;
  readonly status: StatusApiSetup;
  readonly deletions: DeletionApiSetup;
  readonly ops: Omit<OpsApiSetup, 'paths'> & Pick<CompatApiSetup, 'version'>;
}

/** Every endpoint of the coordinator. */
export function routesOf(setup: ApiSetup): readonly Route[] {
  const dataRoutes: Route[] = [
    ...writeRoutes(setup.ingest, { bodyBytesMax: setup.writeBodyBytesMax }),
    ...queryRoutes(setup.query),
    ...labelsRoutes(setup.labels),
    ...remoteReadRoutes({ ...setup.labels, samplesMax: setup.query.samplesMax }),
    ...statusRoutes(setup.status),
    ...deletionRoutes(setup.deletions),
  ];
  const routes: Route[] = [
    ...dataRoutes.map(withCheckedHeaders),
    ...compatRoutes(setup.ops),
    ...adminRoutes(setup.admin),
    ...opsRoutes({ ...setup.ops, paths: () => pathsOf(routes) }),
  ];
  return routes;
}

function withCheckedHeaders(route: Route): Route {
  return {
    ...route,
    handler: (request) => {
      refuseUnsupportedHeaders(request);
      return route.handler(request);
    },
  };
}

function pathsOf(routes: readonly Route[]): string[] {
  return [...new Set(routes.map((route) => route.path))].sort();
}
