/** Calls of a coordinator's API, with errors for the one who typed the command. */
import { badRequest, messageOf, TsdbError } from '#lib/errors.ts';

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** Sends a request, with a body of JSON unless it is undefined. */
export type SendJson = (
  method: Method,
  url: string,
  body?: unknown,
  headers?: Readonly<Record<string, string>>,
) => Promise<CoordinatorAnswer>;

export interface CoordinatorAnswer {
  readonly status: number;
  readonly text: string;
  readonly headers?: Headers;
}

export interface CoordinatorCall {
  /** URL of a coordinator. */
  readonly coordinator: string;
  readonly method: Method;
  /** With its query. */
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** For the error: 'cannot <what>'. */
  readonly what: string;
}

/** Below it are the endpoints of the placement and of upgrades. */
export const servicePath = '/api/v1/services/tsdb';

export const sendJson: SendJson = async (method, url, body, headers = {}) => {
  const json =
    body === undefined
      ? { headers }
      : {
          headers: { ...headers, 'content-type': 'application/json' },
          body: JSON.stringify(body),
        };
  // Elsewhere a change would be asked for without its body, as a GET, and answered with 200.
  const redirect = method === 'GET' ? 'follow' : 'manual';
  const response = await fetch(url, { method, redirect, ...json });
  const { status, headers: answered } = response;
  return { status, text: await response.text(), headers: answered };
};

/**
 * The answer, parsed.
 * @throws {TsdbError} with the coordinator's own words
 */
export async function callCoordinator(send: SendJson, call: CoordinatorCall): Promise<unknown> {
  return JSON.parse((await answerOfCoordinator(send, call)).text);
}

/**
 * The same with its headers, as it came.
 * @throws {TsdbError} with the coordinator's own words
 */
export async function answerOfCoordinator(
  send: SendJson,
  call: CoordinatorCall,
): Promise<CoordinatorAnswer> {
  const { coordinator, method, path, body, headers, what } = call;
  const url = urlBelow(coordinator, path);
  let answer: CoordinatorAnswer;
  try {
    answer = await send(method, url.href, body, headers);
  } catch (error) {
    // What fetch throws says the reason in its cause.
    const { cause } = error as { readonly cause?: unknown };
    throw new TsdbError(
      'UNAVAILABLE',
      `cannot ${what}: no coordinator answers at ${coordinator} (--coordinator names another one): ${messageOf(cause ?? error)}`,
      { cause: error },
    );
  }
  const { status, text, headers: answered } = answer;
  if (status !== 200) {
    const elsewhere = answered?.get('location') ?? '';
    const said = elsewhere === '' ? reasonOf(text) : `it is at ${elsewhere}: name that address`;
    const reason = `${url.host} answers ${status}: ${said}`;
    throw new TsdbError(status === 404 ? 'NOT_FOUND' : 'UNAVAILABLE', `cannot ${what}: ${reason}`);
  }
  return answer;
}

/**
 * An endpoint of a coordinator, which may be below a path of a proxy.
 * @param path with its query
 * @throws {TsdbError} BAD_REQUEST
 */
export function urlBelow(coordinator: string, path: string): URL {
  const isUrl = URL.canParse(coordinator) && /^https?:/.test(coordinator);
  if (!isUrl || /[?#]/.test(coordinator)) {
    throw badRequest(`not the URL of a coordinator, such as http://127.0.0.1:7201: ${coordinator}`);
  }
  const url = new URL(coordinator);
  if (url.username !== '' || url.password !== '') {
    throw badRequest('the URL of a coordinator has a user or a password, which cannot be sent');
  }
  return new URL(`${url.href.replace(/\/+$/, '')}${path}`);
}

/** Why a request is refused: an answer's own words, or its begin when it is none of ours. */
export function reasonOf(text: string): string {
  try {
    const { error } = JSON.parse(text) as { readonly error?: unknown };
    if (typeof error === 'string') return error;
  } catch {
    // Some answers are no JSON.
  }
  return text.trim().slice(0, 1000);
}
