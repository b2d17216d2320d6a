/** Paths of M3 of which there is nothing here: who calls them is told why, and nothing is kept that would have no effect. */
import { badRequest } from '#lib/errors.ts';
import type { PlainHandler } from '../http/http_api.ts';

export const coordinatorPlacement: PlainHandler<null> = () => {
  throw badRequest(
    'coordinators have no placement here: clients reach them by a Service or a load balancer, and aggregators write to the storage nodes',
  );
};

export const topics: PlainHandler<null> = () => {
  throw badRequest(
    'there are no topics here: coordinators find aggregators by their placement (services/aggregator/placement), and these write to the storage nodes',
  );
};
