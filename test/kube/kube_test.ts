/** The scenarios as part of `npm test`, where this machine can run a Kubernetes. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { bringUp, collectLogs, versionDefault, whyNoKubernetes } from './kube.ts';
import { runScenario, scenarios } from './scenarios.ts';

const requireAll = process.env['TSDB_TEST_REQUIRE_ALL'] === '1';
const why = whyNoKubernetes(versionDefault);

if (why !== null && !requireAll) {
  console.log(`skipped: the scenarios on Kubernetes, for ${why}`);
} else {
  test(`a cluster lives its life on Kubernetes ${versionDefault}`, async (t) => {
    const kube = await bringUp(versionDefault, false);
    try {
      for (const scenario of scenarios) {
        await t.test(`${scenario.name}: ${scenario.what}`, async () => {
          try {
            await runScenario(scenario, kube);
          } catch (error) {
            const folder = mkdtempSync(join(tmpdir(), `tsdb-e2e-${scenario.name}-`));
            await collectLogs(kube, folder);
            const message = `${(error as Error).message}; logs and descriptions are in ${folder}`;
            throw new Error(message, { cause: error });
          }
        });
      }
    } finally {
      await kube.down();
    }
  });
}
