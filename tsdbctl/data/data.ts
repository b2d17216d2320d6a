/** Data of a node that runs. */
import { badRequest, messageOf, TsdbError } from '#lib/errors.ts';

/**
 * Asks a node to write its memory to filesets; ends when its commit log is gone.
 * @returns what it did, as JSON
 * @throws {TsdbError} with the node's own words
 */
export async function flushNode(
  post: (url: string) => Promise<{ readonly status: number; readonly text: string }>,
  node: string,
  namespace: string | null,
): Promise<string> {
  if (!URL.canParse(node) || !/^https?:/.test(node)) {
    throw badRequest(`--node is not a URL such as http://127.0.0.1:9002: ${node}`);
  }
  const url = new URL('/flush', node);
  if (namespace !== null) url.searchParams.set('namespace', namespace);
  let answer: Awaited<ReturnType<typeof post>>;
  try {
    answer = await post(url.href);
  } catch (error) {
    // What fetch throws says the reason in its cause.
    const { cause } = error as { readonly cause?: unknown };
    throw new TsdbError(
      'UNAVAILABLE',
      `cannot flush: no node answers at ${node} (--node names another one): ${messageOf(cause ?? error)}`,
      { cause: error },
    );
  }
  const { status, text } = answer;
  if (status === 200) return text.trim();
  throw new TsdbError('UNAVAILABLE', `cannot flush: ${url.host} answers ${status}: ${text.trim()}`);
}
