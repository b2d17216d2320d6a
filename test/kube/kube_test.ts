/** Of the scenarios, as part of `npm test`, those that fit; where this machine can run a Kubernetes. */
import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Journal } from './journal.ts';
import { bringUp, collectLogs, versionDefault, whyNoKubernetes } from './kube.ts';
import { scenarios } from './scenarios/index.ts';
import { reset, runScenario } from './scenarios/scenario.ts';

const requireAll = process.env['TSDB_TEST_REQUIRE_ALL'] === '1';
const why = whyNoKubernetes(versionDefault);
/** The others are for `npm run e2e`. */
const played: readonly string[] = [
  '01-create',
  '02-killed-after-init',
  '05-foreign-placement',
  '06-scale-up',
  '11-up-down-up',
  '12-kill',
  '13-disk-lost',
  '14-machine-lost',
  '27-children-edited',
  '31-invalid-specs',
  '34-comes-back',
  '35-namespaces',
  '37-etcd-members',
  '38-etcd-lost',
  '30-rights-of-the-chart',
];
const restMillis = 5_000;

if (why !== null && !requireAll) {
  console.log(`skipped: the scenarios on Kubernetes, for ${why}`);
} else {
  test(`a cluster lives its life on Kubernetes ${versionDefault}`, async (t) => {
    const kube = await bringUp(versionDefault, false);
    const journal = new Journal();
    try {
      const chosen = scenarios.filter(({ name }) => played.includes(name));
      assert.equal(chosen.length, played.length);
      for (const scenario of chosen) {
        await t.test(`${scenario.name}: ${scenario.what}`, async () => {
          try {
            await runScenario(scenario, kube, journal, restMillis);
          } catch (error) {
            const folder = mkdtempSync(join(tmpdir(), `tsdb-e2e-${scenario.name}-`));
            await collectLogs(kube, folder);
            await reset(kube).catch((left: unknown) => console.log(left));
            const message = `${(error as Error).message}; logs and descriptions are in ${folder}`;
            throw new Error(message, { cause: error });
          }
        });
      }
    } finally {
      journal.close();
      await kube.down();
    }
  });
}
