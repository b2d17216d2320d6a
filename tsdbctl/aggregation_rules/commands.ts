/** Commands about rules of aggregation. */
import type { Rules } from '#cluster/aggregation_rules/rules.ts';
import { realEnv } from '#lib/env/real.ts';
import { badRequest } from '#lib/errors.ts';
import { checkIsThere, type Call, type Command, operandOf, saying } from '../command.ts';
import { sendJson } from '../coordinator.ts';
import { explainSeries, rulesText, tagsOfPairs } from './explain.ts';
import { readRuleFile } from './read.ts';
import { applyRules, historyText, policiesOfCluster, rulesOfSet, setsText } from './sets.ts';

/** The set that rules without a name of one are in. */
const defaultSet = 'default';

/** Of the file that is named at a place of the operands. */
async function fileRules(
  call: Call,
  at: number,
): Promise<{ readonly body: unknown; readonly rules: Rules }> {
  const path = operandOf(call, at, 'FILE');
  await checkIsThere('file', path);
  const text = new TextDecoder().decode(await realEnv.disk.readFile(path));
  return readRuleFile({ path, text }, process.env, realEnv.disk);
}

const ofCoordinator = `  --coordinator URL  http://127.0.0.1:7201 when not given`;

export const aggregationRulesCommands: Readonly<Record<string, Command>> = {
  'aggregation-rules check': saying(
    `tsdbctl aggregation-rules check FILE
  says whether the mapping and rollup rules of a file can be used, and what of them does nothing; FILE has them alone, or
  is the configuration of a coordinator, of which the rules of Carbon are read, too`,
    async (call) => rulesText((await fileRules(call, 0)).rules),
  ),
  'aggregation-rules explain': saying(
    `tsdbctl aggregation-rules explain FILE METRIC TAG=VALUE…
tsdbctl aggregation-rules explain --set NAME METRIC TAG=VALUE… [--coordinator URL]
  tells what the rules of a file, or of a set of the cluster, do with a series; one of Carbon is path:NODE.NODE…
  --set NAME         a set of rules of the cluster
${ofCoordinator}`,
    async (call) => {
      const { set } = call.options;
      const series = tagsOfPairs(call.operands.slice(set === null ? 1 : 0));
      if (set === null) return explainSeries((await fileRules(call, 0)).rules, series);
      const rules = await rulesOfSet(sendJson, { ...call.options, set });
      const there = await policiesOfCluster(sendJson, call.options.coordinator);
      return explainSeries(rules, series, there);
    },
  ),
  'aggregation-rules list': saying(
    `tsdbctl aggregation-rules list [--set NAME] [--coordinator URL]
  prints the rules of the cluster, as they were written last
  --set NAME         those of one set
${ofCoordinator}`,
    ({ options }) => setsText(sendJson, options),
  ),
  'aggregation-rules apply': saying(
    `tsdbctl aggregation-rules apply FILE [--set NAME] [--dry-run] [--force] [--coordinator URL]
  has the rules of FILE, as for "check", be all that a set of the cluster has; tells what changes, and from when on
  --set NAME         ${defaultSet} when not given; it is made when there is none
  --dry-run          tells it, and changes nothing
  --force            also rules that come from the configuration of coordinators
${ofCoordinator}`,
    async (call) => {
      const { body } = await fileRules(call, 0);
      if (body === undefined) {
        throw badRequest(
          'the file has rules of Carbon alone, which coordinators publish as they start',
        );
      }
      const set = call.options.set ?? defaultSet;
      return applyRules(sendJson, body, { ...call.options, set, by: process.env['USER'] ?? '' });
    },
  ),
  'aggregation-rules history': saying(
    `tsdbctl aggregation-rules history RULE [--set NAME] [--coordinator URL]
  tells what a rule has been, since when, and by whom; RULE is its name or its ID
  --set NAME         ${defaultSet} when not given
${ofCoordinator}`,
    (call) => {
      const set = call.options.set ?? defaultSet;
      return historyText(sendJson, operandOf(call, 0, 'RULE'), { ...call.options, set });
    },
  ),
};
