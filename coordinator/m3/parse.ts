/** `parse` and `threshold`: what a query is made of, for M3's tools. */
import type { Turning } from '#engine/aside/aside.ts';
import { type ApiRequest, type FormHandler, jsonAnswer } from '../http/http_api.ts';
import { ofParameter, requiredText } from '../http/parameters.ts';
import type { Expr } from '../promql/parse/ast.ts';
import type { PromqlFeatures } from '../promql/parse/features.ts';
import { parseQuery } from '../promql/parse/parser.ts';
import { dagOf, thresholdOf } from './query_dag.ts';

export interface ParseSetup {
  readonly features: PromqlFeatures;
  readonly turningOf: (signal: AbortSignal) => Turning;
}

/** `{name, children}` of functions; a selector is `fetch`, a number `scalar`. */
export const queryDag: FormHandler<ParseSetup> = async (setup, request, parameters) =>
  jsonAnswer(dagOf(await exprOf(setup, request, parameters)));

/** `{query, threshold: {comparator, value}}`, without `threshold` where a query is not compared with a number. */
export const queryThreshold: FormHandler<ParseSetup> = async (setup, request, parameters) =>
  jsonAnswer(thresholdOf(await exprOf(setup, request, parameters)));

function exprOf(
  { features, turningOf }: ParseSetup,
  { signal }: ApiRequest,
  parameters: URLSearchParams,
): Promise<Expr> {
  const text = requiredText(parameters, 'query');
  return ofParameter('query', parseQuery(text, features, turningOf(signal)));
}
