/** Sets of aggregation rules: the endpoints of M3's r2, each a call of the cluster room. */
import {
  mappingRules,
  rollupRules,
  type RulesChange,
  type RulesOfKind,
  type RulesTarget,
  ruleSetApply,
  ruleSetCreate,
  ruleSetDelete,
  ruleSetGet,
  ruleSetsGet,
  ruleSetUpdate,
  ruleSetValidate,
} from '#cluster/admin/aggregation_rules.ts';
import {
  type ApiRequest,
  eitherHeader,
  jsonAnswer,
  type JsonHandler,
  type PlainHandler,
} from '../http/http_api.ts';
import { type AdminApiSetup, adminCallOf } from './call.ts';

type RulesPlain = PlainHandler<AdminApiSetup>;
type RulesJson = JsonHandler<AdminApiSetup>;

/** A request, with what its path and headers name. */
interface RulesCall {
  readonly target: RulesTarget;
  readonly change: RulesChange;
  /** Of the set; '' where the path names none. */
  readonly name: string;
  /** Of the rule; '' where the path names none. */
  readonly id: string;
  readonly signal: AbortSignal;
}

function rulesCallOf(setup: AdminApiSetup, request: ApiRequest): RulesCall {
  const { admin, kv, options, signal } = adminCallOf(setup, request);
  const { clock, random } = setup;
  return {
    target: { kv, cluster: admin.cluster, clock, random },
    // Nobody is authenticated here: a proxy in front says who it is.
    change: { ...options, by: eitherHeader(request, 'User') },
    name: request.pathParameters['set'] ?? '',
    id: request.pathParameters['rule'] ?? '',
    signal,
  };
}

function plainCall(run: (call: RulesCall) => Promise<object>): RulesPlain {
  return async (setup, request) => jsonAnswer(await run(rulesCallOf(setup, request)));
}

function jsonCall(
  run: (call: RulesCall, body: unknown) => Promise<object>,
  status = 200,
): RulesJson {
  return async (setup, request, body) =>
    jsonAnswer(await run(rulesCallOf(setup, request), body), {}, status);
}

const created = 201;

export const ruleSets: RulesPlain = plainCall(({ target, signal }) => ruleSetsGet(target, signal));

export const ruleSetAdd: RulesJson = jsonCall(
  ({ target, change, signal }, body) => ruleSetCreate(target, body, change, signal),
  created,
);

export const ruleSet: RulesPlain = plainCall(({ target, name, signal }) =>
  ruleSetGet(target, name, signal),
);

export const ruleSetRemove: RulesPlain = plainCall(({ target, name, change, signal }) =>
  ruleSetDelete(target, name, change, signal),
);

export const ruleSetCheck: RulesJson = jsonCall(({ target, name, signal }, body) =>
  ruleSetValidate(target, name, body, signal),
);

export const ruleSetChange: RulesJson = jsonCall(({ target, name, change, signal }, body) =>
  ruleSetUpdate(target, name, body, change, signal),
);

export const ruleSetPut: RulesJson = jsonCall(({ target, name, change, signal }, body) =>
  ruleSetApply(target, name, body, change, signal),
);

/** The endpoints of rules of one kind. */
interface RuleEndpoints {
  readonly get: RulesPlain;
  readonly history: RulesPlain;
  readonly add: RulesJson;
  readonly update: RulesJson;
  readonly remove: RulesPlain;
}

function endpointsOf(rules: RulesOfKind): RuleEndpoints {
  return {
    get: plainCall(({ target, name, id, signal }) => rules.get(target, name, id, signal)),
    history: plainCall(({ target, name, id, signal }) => rules.history(target, name, id, signal)),
    add: jsonCall(
      ({ target, name, change, signal }, body) => rules.add(target, name, body, change, signal),
      created,
    ),
    update: jsonCall(({ target, name, id, change, signal }, body) =>
      rules.update(target, name, id, body, change, signal),
    ),
    remove: plainCall(({ target, name, id, change, signal }) =>
      rules.remove(target, name, id, change, signal),
    ),
  };
}

export const mappingRule: RuleEndpoints = endpointsOf(mappingRules);
export const rollupRule: RuleEndpoints = endpointsOf(rollupRules);
