/** `npm run e2e`: the scenarios on a Kubernetes of this machine. */
import { cpSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { toolOptions } from '../command_line.ts';
import { Journal } from './journal.ts';
import { bringUp, collectLogs, home, type Kube, say, seconds, versionDefault } from './kube.ts';
import { Report, testedTree } from './report.ts';
import { scenarios } from './scenarios/index.ts';
import { renew, reset, runScenario, type Scenario } from './scenarios/scenario.ts';

const values = toolOptions(
  `npm run e2e -- [options]: the scenarios on a Kubernetes of this machine
  --list             names of the scenarios
  --only NAME        those whose name begins so, in this order (repeatable); all when not given
  --version X.Y.Z    of Kubernetes; ${versionDefault} when not given
  --keep             use a cluster that is up, and leave it up
  --report FILE      where results are kept, by scenario, version and what was tested
  --resume           not those that have succeeded already, as FILE says`,
  {
    list: { type: 'boolean', default: false },
    only: { type: 'string', multiple: true, default: [] },
    version: { type: 'string', default: versionDefault },
    keep: { type: 'boolean', default: false },
    report: { type: 'string' },
    resume: { type: 'boolean', default: false },
  },
);

async function main(): Promise<number> {
  if (values.list) {
    for (const { name, what } of scenarios) console.log(`${name.padEnd(28)} ${what}`);
    return 0;
  }
  const isMeant = ({ name }: Scenario, start: string): boolean => name.startsWith(start);
  const unknown = values.only.filter((start) => !scenarios.some((one) => isMeant(one, start)));
  if (unknown.length > 0) {
    console.error(`no such scenario: ${unknown.join(', ')}; --list shows them`);
    return 2;
  }
  if (values.resume && values.report === undefined) {
    console.error('--resume needs --report FILE');
    return 2;
  }
  const report = new Report(values.report ?? null);
  const tree = await testedTree();
  const meant =
    values.only.length === 0
      ? scenarios
      : values.only.flatMap((start) => scenarios.filter((one) => isMeant(one, start)));
  const chosen = [...new Set(meant)].filter(
    ({ name }) => !(values.resume && report.has(name, values.version, tree)),
  );
  const started = Date.now();
  const kube = await bringUp(values.version, values.keep);
  if (values.keep) await renew(kube);
  const journal = new Journal();
  let failed = 0;
  try {
    for (const [index, scenario] of chosen.entries()) {
      const startedMillis = Date.now();
      const problem = await played(scenario, kube, journal, report, tree);
      const ok = problem === null;
      if (!ok) failed++;
      say(`${ok ? 'ok' : 'not ok'} ${index + 1} - ${scenario.name} (${seconds(startedMillis)})`);
      if (ok) continue;
      console.log(problem.stack);
      const folder = mkdtempSync(join(tmpdir(), `tsdb-e2e-${scenario.name}-`));
      await collectLogs(kube, folder);
      say(`logs and descriptions are in ${folder}`);
      await reset(kube).catch((error: unknown) => {
        // What runs the machines says why nothing ends.
        cpSync(join(home, 'log'), join(folder, 'processes'), { recursive: true });
        throw error;
      });
    }
  } finally {
    journal.close();
    if (!values.keep) await kube.down();
  }
  console.log(report.table(values.version, tree));
  say(`Kubernetes ${values.version}, everything after ${seconds(started)}`);
  console.log(`# tests ${chosen.length}\n# pass ${chosen.length - failed}\n# fail ${failed}`);
  return failed === 0 ? 0 : 1;
}

/** @returns why it has failed; null when it has not */
async function played(
  scenario: Scenario,
  kube: Kube,
  journal: Journal,
  report: Report,
  tree: string,
): Promise<Error | null> {
  say(`# ${scenario.name}: ${scenario.what}`);
  const startedMillis = Date.now();
  const result = { scenario: scenario.name, kubernetes: kube.version, tree };
  const at = new Date(startedMillis).toISOString();
  try {
    const outcome = await runScenario(scenario, kube, journal);
    report.add({ ...result, ...outcome, ok: true, at });
    return null;
  } catch (error) {
    const writes = journal.writesSince(startedMillis).length;
    report.add({ ...result, ok: false, seconds: (Date.now() - startedMillis) / 1000, writes, at });
    return error as Error;
  }
}

process.exitCode = await main();
