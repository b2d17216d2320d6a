/** `npm run e2e`: the scenarios on a Kubernetes of this machine. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { toolOptions } from '../command_line.ts';
import { bringUp, collectLogs, say, seconds, versionDefault } from './kube.ts';
import { runScenario, scenarios } from './scenarios.ts';

const values = toolOptions(
  `npm run e2e -- [options]: the scenarios on a Kubernetes of this machine
  --list             names of the scenarios
  --only NAME        one of them (repeatable); all when not given
  --version X.Y.Z    of Kubernetes; ${versionDefault} when not given
  --keep             use a cluster that is up, and leave it up`,
  {
    list: { type: 'boolean', default: false },
    only: { type: 'string', multiple: true, default: [] },
    version: { type: 'string', default: versionDefault },
    keep: { type: 'boolean', default: false },
  },
);

async function main(): Promise<number> {
  if (values.list) {
    for (const { name, what } of scenarios) console.log(`${name.padEnd(10)} ${what}`);
    return 0;
  }
  const unknown = values.only.filter((name) => !scenarios.some((one) => one.name === name));
  if (unknown.length > 0) {
    console.error(`no such scenario: ${unknown.join(', ')}; --list shows them`);
    return 2;
  }
  const chosen = scenarios.filter(
    ({ name }) => values.only.length === 0 || values.only.includes(name),
  );
  const started = Date.now();
  const kube = await bringUp(values.version, values.keep);
  let failed = 0;
  try {
    for (const [index, scenario] of chosen.entries()) {
      say(`# ${scenario.name}: ${scenario.what}`);
      const scenarioStarted = Date.now();
      try {
        await runScenario(scenario, kube);
        say(`ok ${index + 1} - ${scenario.name} (${seconds(scenarioStarted)})`);
      } catch (error) {
        failed++;
        say(`not ok ${index + 1} - ${scenario.name} (${seconds(scenarioStarted)})`);
        console.log((error as Error).stack);
        const folder = mkdtempSync(join(tmpdir(), `tsdb-e2e-${scenario.name}-`));
        await collectLogs(kube, folder);
        say(`logs and descriptions are in ${folder}`);
      }
    }
  } finally {
    if (!values.keep) await kube.down();
  }
  say(`Kubernetes ${values.version}, everything after ${seconds(started)}`);
  console.log(`# tests ${chosen.length}\n# pass ${chosen.length - failed}\n# fail ${failed}`);
  return failed === 0 ? 0 : 1;
}

process.exitCode = await main();
