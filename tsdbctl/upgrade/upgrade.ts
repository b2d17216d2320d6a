/** The end of an upgrade: which formats the cluster writes, and the switch to the newest ones. */
import type { UpgradeStatus } from '#cluster/admin/upgrade.ts';
import { callCoordinator, type SendJson, servicePath } from '../coordinator.ts';

/**
 * What each instance reads and writes, and what is in the way of the newest formats.
 * @returns lines
 * @throws {TsdbError} with the coordinator's own words
 */
export async function upgradeStatusText(send: SendJson, coordinator: string): Promise<string> {
  const answer = await callCoordinator(send, {
    coordinator,
    method: 'GET',
    path: `${servicePath}/upgrade`,
    what: 'tell the status of the upgrade',
  });
  const { formatLevel, instances, behind } = answer as UpgradeStatus;
  const { newest, finished } = formatLevel;
  const isFinished = finished >= newest;
  const lines = [
    isFinished
      ? `formats of level ${finished} are written: the upgrade is finished`
      : `formats of level ${finished} are written; this release writes level ${newest} once the upgrade is finished`,
    ...Object.entries(instances).map(([id, formats]) =>
      'error' in formats
        ? `  ${id}  does not answer: ${formats.error}`
        : `  ${id}  reads ${formats.reads}, writes ${formats.writes}, its readers read ${formats.readersRead}`,
    ),
  ];
  if (!isFinished) {
    const next = behind.length === 0 ? ['nothing: run "tsdbctl upgrade finish"'] : behind;
    lines.push('in the way:', ...next.map((line) => `  ${line}`));
  }
  return lines.join('\n');
}

/**
 * Has the newest formats written from now on.
 * @param force also while clients read that do not say that they can read them
 * @returns what stands now, in words
 * @throws {TsdbError} with the coordinator's own words, which name who is in the way
 */
export async function finishUpgrade(
  send: SendJson,
  { coordinator, force }: { readonly coordinator: string; readonly force: boolean },
): Promise<string> {
  const answer = await callCoordinator(send, {
    coordinator,
    method: 'POST',
    path: `${servicePath}/upgrade/finish${force ? '?force=true' : ''}`,
    what: 'finish the upgrade',
  });
  const { finished } = (answer as UpgradeStatus).formatLevel;
  return `formats of level ${finished} are written from now on: releases that do not read them must not be started any more`;
}
