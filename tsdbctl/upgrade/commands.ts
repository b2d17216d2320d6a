/** Commands about upgrades. */
import { type Command, saying } from '../command.ts';
import { sendJson } from '../coordinator.ts';
import { finishUpgrade, upgradeStatusText } from './upgrade.ts';

export const upgradeCommands: Readonly<Record<string, Command>> = {
  'upgrade status': saying(
    `tsdbctl upgrade status [--coordinator URL]
  tells which formats the cluster writes, and who is in the way of those of this release
  --coordinator URL  http://127.0.0.1:7201 when not given`,
    ({ options }) => upgradeStatusText(sendJson, options.coordinator),
  ),
  'upgrade finish': saying(
    `tsdbctl upgrade finish [--coordinator URL] [--force]
  has the formats of this release written, when every process reads them: the release before must not be started
  after that
  --coordinator URL  http://127.0.0.1:7201 when not given
  --force            also while clients read by gRPC that do not say what they can read`,
    ({ options }) => finishUpgrade(sendJson, options),
  ),
};
