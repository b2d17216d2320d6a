/** The placement of aggregators: the admin endpoints, each a call of the cluster room. */
import { AggregatorPlacement } from '#cluster/admin/aggregator_placement.ts';
import { wholeNumber } from '../http/whole_number.ts';
import {
  type ApiRequest,
  jsonAnswer,
  type JsonHandler,
  type PlainHandler,
} from '../http/http_api.ts';
import { type AdminApiSetup, type AdminCall, adminCallOf } from './call.ts';

interface AggregatorsCall extends AdminCall {
  readonly placement: AggregatorPlacement;
}

function callOf(setup: AdminApiSetup, request: ApiRequest): AggregatorsCall {
  const call = adminCallOf(setup, request);
  const placement = new AggregatorPlacement(call.kv, call.admin.cluster, setup.random);
  return { ...call, placement };
}

function plainCall(run: (call: AggregatorsCall) => Promise<unknown>): PlainHandler<AdminApiSetup> {
  return async (setup, request) => jsonAnswer(await run(callOf(setup, request)));
}

function jsonCall(
  run: (call: AggregatorsCall, body: unknown) => Promise<unknown>,
): JsonHandler<AdminApiSetup> {
  return async (setup, request, body) => jsonAnswer(await run(callOf(setup, request), body));
}

export const aggregatorsGet: PlainHandler<AdminApiSetup> = plainCall(
  ({ placement, urlParameters, signal }) => {
    const text = urlParameters.get('version') ?? '';
    return placement.get(text === '' ? null : wholeNumber(text, 'version'), signal);
  },
);

export const aggregatorsInit: JsonHandler<AdminApiSetup> = jsonCall(
  ({ placement, options, signal }, body) => placement.init(body, options, signal),
);

export const aggregatorsAdd: JsonHandler<AdminApiSetup> = jsonCall(
  ({ placement, options, signal }, body) => placement.add(body, options, signal),
);

export const aggregatorsRemove: JsonHandler<AdminApiSetup> = jsonCall(
  ({ placement, options, signal }, body) => placement.remove(body, options, signal),
);

export const aggregatorsRemoveInstance: PlainHandler<AdminApiSetup> = plainCall(
  ({ placement, id, options, signal }) => placement.removeInstance(id, options, signal),
);

export const aggregatorsReplace: JsonHandler<AdminApiSetup> = jsonCall(
  ({ placement, options, signal }, body) => placement.replace(body, options, signal),
);

export const aggregatorsSet: JsonHandler<AdminApiSetup> = jsonCall(
  ({ placement, options, signal }, body) => placement.set(body, options, signal),
);

export const aggregatorsDelete: PlainHandler<AdminApiSetup> = plainCall(
  ({ placement, options, signal }) => placement.delete(options, signal),
);
