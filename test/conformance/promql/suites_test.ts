/**
 * Prometheus' own test scripts (../shared/suites beside the project), as far as a default
 * Prometheus 3 passes them.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { PromqlEngine } from '#coordinator/promql/engine.ts';
import { allFeatures, noFeatures } from '#coordinator/promql/parse/features.ts';
import { realEnv } from '#lib/env/real.ts';
import { MemoryStorage } from './memory_storage.ts';
import { runScript } from './run_script.ts';

const suiteFolder = new URL('../../../../shared/suites/promql/', import.meta.url);

/** As promqltest runs them. */
const scriptFeatures = { ...allFeatures, typeAndUnitLabels: false };

/** Folders below it, and what of the engine has to be on. */
const folders = [
  { folder: '', features: noFeatures },
  { folder: 'experimental/', features: scriptFeatures },
  { folder: 'native_histograms/', features: scriptFeatures },
] as const;

if (!existsSync(suiteFolder)) {
  console.log('skipped: Prometheus scripts are not here (../shared/suites/promql)');
} else {
  for (const { folder, features } of folders) {
    const url = new URL(folder, suiteFolder);
    for (const file of readdirSync(url).filter((name) => name.endsWith('.test'))) {
      test(`the engine passes Prometheus' ${folder}${file}`, async () => {
        const storage = new MemoryStorage();
        const engine = new PromqlEngine(storage, { clock: realEnv.clock, features });
        const outcome = await runScript(readFileSync(new URL(file, url), 'utf8'), storage, engine);
        assert.deepEqual(outcome.failures, []);
        assert.ok(outcome.passed > 0, 'the script has evaluations');
      });
    }
  }
}
