/** Calls of a coordinator's API, with errors for the one who typed the command. */
import { badRequest, messageOf, TsdbError } from '#lib/errors.ts';

/** Sends a request, with a body of JSON unless it is undefined. */
export type SendJson = (
  method: 'GET' | 'POST',
  url: string,
  body?: unknown,
) => Promise<{ readonly status: number; readonly text: string }>;

export interface CoordinatorCall {
  /** URL of a coordinator. */
  readonly coordinator: string;
  readonly method: 'GET' | 'POST';
  /** Below `/api/v1/services/tsdb`. */
  readonly path: string;
  readonly body?: unknown;
  /** For the error: 'cannot <what>'. */
  readonly what: string;
}

/**
 * The answer, parsed.
 * @throws {TsdbError} with the coordinator's own words
 */
export async function callCoordinator(send: SendJson, call: CoordinatorCall): Promise<unknown> {
  const { coordinator, method, path, body, what } = call;
  if (!URL.canParse(coordinator) || !/^https?:/.test(coordinator)) {
    throw badRequest(`--coordinator is not a URL such as http://127.0.0.1:7201: ${coordinator}`);
  }
  const url = new URL(`/api/v1/services/tsdb${path}`, coordinator);
  let answer: Awaited<ReturnType<SendJson>>;
  try {
    answer = await send(method, url.href, body);
  } catch (error) {
    // What fetch throws says the reason in its cause.
    const { cause } = error as { readonly cause?: unknown };
    throw new TsdbError(
      'UNAVAILABLE',
      `cannot ${what}: no coordinator answers at ${coordinator} (--coordinator names another one): ${messageOf(cause ?? error)}`,
      { cause: error },
    );
  }
  const { status, text } = answer;
  if (status !== 200) {
    const reason = `${url.host} answers ${status}: ${text.trim()}`;
    throw new TsdbError('UNAVAILABLE', `cannot ${what}: ${reason}`);
  }
  return JSON.parse(text);
}
