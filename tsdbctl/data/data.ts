/** Data of a node that runs. */
import { TsdbError } from '#lib/errors.ts';

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
  const url = new URL('/flush', node);
  if (namespace !== null) url.searchParams.set('namespace', namespace);
  const { status, text } = await post(url.href);
  if (status === 200) return text.trim();
  throw new TsdbError('UNAVAILABLE', `cannot flush: ${url.host} answers ${status}: ${text.trim()}`);
}
