/** Data of a node that runs. */
import { badRequest, messageOf, TsdbError } from '#lib/errors.ts';

/** Sends a request, and gives what is answered. */
type Send = (url: string) => Promise<{ readonly status: number; readonly text: string }>;

/**
 * Asks a node to write its memory to filesets; ends when its commit log is gone.
 * @returns what it did, as JSON
 * @throws {TsdbError} with the node's own words
 */
export function flushNode(post: Send, node: string, namespace: string | null): Promise<string> {
  const query = namespace === null ? {} : { namespace };
  return ask(post, node, 'flush', query);
}

/**
 * Has a node compare its blocks with those of the other replicas; ends when that is begun.
 * @throws {TsdbError} with the node's own words
 */
export async function repairNode(get: Send, node: string): Promise<void> {
  await ask(get, node, 'repair', {});
}

async function ask(
  send: Send,
  node: string,
  verb: string,
  query: Readonly<Record<string, string>>,
): Promise<string> {
  if (!URL.canParse(node) || !/^https?:/.test(node)) {
    throw badRequest(`--node is not a URL such as http://127.0.0.1:9002: ${node}`);
  }
  const url = new URL(`/${verb}`, node);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  let answer: Awaited<ReturnType<Send>>;
  try {
    answer = await send(url.href);
  } catch (error) {
    // What fetch throws says the reason in its cause.
    const { cause } = error as { readonly cause?: unknown };
    throw new TsdbError(
      'UNAVAILABLE',
      `cannot ${verb}: no node answers at ${node} (--node names another one): ${messageOf(cause ?? error)}`,
      { cause: error },
    );
  }
  const { status, text } = answer;
  if (status === 200) return text.trim();
  throw new TsdbError(
    'UNAVAILABLE',
    `cannot ${verb}: ${url.host} answers ${status}: ${text.trim()}`,
  );
}
