/** Commands about a cluster's placement. */
import { type Command, operandOf, saying } from '../command.ts';
import { sendJson } from '../coordinator.ts';
import { approvePlacement } from './approve.ts';
import { resetInstances } from './reset.ts';

export const placementCommands: Readonly<Record<string, Command>> = {
  'placement approve': saying(
    `tsdbctl placement approve [--coordinator URL] [--force]
  after the key-value store was restored from a backup or made anew: has the placement and the namespaces stand again
  that the instances knew last; says no as long as an instance has not said what it knew
  --coordinator URL  http://127.0.0.1:7201 when not given
  --force            all the same`,
    ({ options }) => approvePlacement(sendJson, options),
  ),
  'placement reset': saying(
    `tsdbctl placement reset INSTANCE… [--coordinator URL] [--force]
  has the data of instances not counted any more, since they are gone for good or not trusted: nobody waits for them,
  and those that come back take their shards from others; says no when one of them runs, or nobody else has a shard
  --coordinator URL  http://127.0.0.1:7201 when not given
  --force            all the same`,
    (call) => {
      operandOf(call, 0, 'INSTANCE');
      return resetInstances(sendJson, { ...call.options, instanceIds: call.operands });
    },
  ),
};
