/** Approval of a key-value store that was restored from a backup or made anew. */
import { callCoordinator, type SendJson, servicePath } from '../coordinator.ts';

export interface ApproveOptions {
  /** URL of a coordinator. */
  readonly coordinator: string;
  /** Although instances have not said what they knew. */
  readonly force: boolean;
}

/**
 * Has the placement and the namespaces stand again that the instances knew last.
 * @returns what stands now, in words
 * @throws {TsdbError} with the coordinator's own words
 */
export async function approvePlacement(send: SendJson, options: ApproveOptions): Promise<string> {
  const { coordinator, force } = options;
  const answer = await callCoordinator(send, {
    coordinator,
    method: 'POST',
    path: `${servicePath}/placement/approve`,
    body: { force },
    what: 'approve',
  });
  const { version } = answer as { readonly version: number };
  return `placement ${version}: it stands as the instances knew it last, and may be changed again`;
}
