/** Changes of a cluster's placement that people make by hand. */
import { badRequest, messageOf, TsdbError } from '#lib/errors.ts';

/** Sends a body of JSON by POST. */
export type PostJson = (
  url: string,
  body: unknown,
) => Promise<{ readonly status: number; readonly text: string }>;

export interface ResetOptions {
  /** URL of a coordinator. */
  readonly coordinator: string;
  readonly instanceIds: readonly string[];
  /** Also when an instance runs, or nobody else has a shard. */
  readonly force: boolean;
}

/**
 * Has the data of instances not counted any more: they are gone for good, or not trusted.
 * @returns what stands now, in words
 * @throws {TsdbError} with the coordinator's own words
 */
export async function resetInstances(post: PostJson, options: ResetOptions): Promise<string> {
  const { coordinator, instanceIds, force } = options;
  if (!URL.canParse(coordinator) || !/^https?:/.test(coordinator)) {
    throw badRequest(`--coordinator is not a URL such as http://127.0.0.1:7201: ${coordinator}`);
  }
  const url = new URL('/api/v1/services/tsdb/placement/reset', coordinator);
  let answer: Awaited<ReturnType<PostJson>>;
  try {
    answer = await post(url.href, { instance_ids: instanceIds, force });
  } catch (error) {
    // What fetch throws says the reason in its cause.
    const { cause } = error as { readonly cause?: unknown };
    throw new TsdbError(
      'UNAVAILABLE',
      `cannot reset: no coordinator answers at ${coordinator} (--coordinator names another one): ${messageOf(cause ?? error)}`,
      { cause: error },
    );
  }
  const { status, text } = answer;
  if (status !== 200) {
    throw new TsdbError(
      'UNAVAILABLE',
      `cannot reset: ${url.host} answers ${status}: ${text.trim()}`,
    );
  }
  const { version } = JSON.parse(text) as { readonly version: number };
  return `placement ${version}: ${instanceIds.join(', ')} count for nothing until they have taken their shards from others`;
}
