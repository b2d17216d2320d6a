/**
 * Prometheus' own test scripts: those of the suites, as far as a Prometheus 3 passes them by default and with its features, and
 * those of the folder that `TSDB_TEST_PROMQL_SCRIPTS` names, if it does: `promql/promqltest/testdata` of its sources.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { env } from 'node:process';
import { after, test } from 'node:test';
import { PromqlEngine } from '#coordinator/promql/engine.ts';
import {
  allFeatures,
  noFeatures,
  type PromqlFeatures,
} from '#coordinator/promql/parse/features.ts';
import { realEnv } from '#lib/env/real.ts';
import { filesOfSuites, hasSuites, readSuiteText } from '../suites.ts';
import { MemoryStorage } from './memory_storage.ts';
import { asOf315 } from './of_3_15.ts';
import { runScript } from './run_script.ts';

/** As promqltest runs them. */
const scriptFeatures = { ...allFeatures, typeAndUnitLabels: false };

/** Folders of suites, and what of the engine has to be on. */
const folders = [
  { folder: 'promql/', features: noFeatures },
  { folder: 'promql/experimental/', features: scriptFeatures },
  { folder: 'promql/native_histograms/', features: scriptFeatures },
] as const;

/** Of evaluations, by file. */
const table: string[] = [];

after(() => {
  for (const row of table) console.log(row);
});

function testScript(name: string, read: () => string, features: PromqlFeatures): void {
  test(`the engine passes Prometheus' ${name}`, async () => {
    const storage = new MemoryStorage();
    const engine = new PromqlEngine(storage, { clock: realEnv.clock, features });
    const { passed, evaluated, failures } = await runScript(read(), storage, engine);
    table.push(`${name}: ${passed} of ${evaluated}`);
    assert.deepEqual(failures, []);
    assert.ok(passed > 0, 'the script has evaluations');
  });
}

const isScript = (name: string): boolean => name.endsWith('.test');

for (const { folder, features } of folders) {
  if (!hasSuites(folder)) continue;
  for (const file of filesOfSuites(folder).filter(isScript)) {
    const name = `${folder}${file}`;
    testScript(name, () => asOf315(name, readSuiteText(name)), features);
  }
}

const scripts = env['TSDB_TEST_PROMQL_SCRIPTS'];
if (scripts !== undefined) {
  for (const file of readdirSync(scripts).filter(isScript).toSorted()) {
    testScript(
      join(scripts, file),
      () => readFileSync(join(scripts, file), 'utf8'),
      scriptFeatures,
    );
  }
}
