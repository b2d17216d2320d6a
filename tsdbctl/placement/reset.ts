/** Changes of a cluster's placement that people make by hand. */
import { callCoordinator, type SendJson, servicePath } from '../coordinator.ts';

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
export async function resetInstances(send: SendJson, options: ResetOptions): Promise<string> {
  const { coordinator, instanceIds, force } = options;
  const answer = await callCoordinator(send, {
    coordinator,
    method: 'POST',
    path: `${servicePath}/placement/reset`,
    body: { instance_ids: instanceIds, force },
    what: 'reset',
  });
  const { version } = answer as { readonly version: number };
  return `placement ${version}: ${instanceIds.join(', ')} count for nothing until they have taken their shards from others`;
}
