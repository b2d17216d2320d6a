/** Where the cases of graphite-web are: ../shared/suites beside the project, or the folder that `TSDB_TEST_SUITES` names. */
import { existsSync, readFileSync } from 'node:fs';
import { env } from 'node:process';
import { pathToFileURL } from 'node:url';

const named = env['TSDB_TEST_SUITES'];
const folder =
  named === undefined
    ? new URL('../../../../shared/suites/graphite/', import.meta.url)
    : new URL('graphite/', pathToFileURL(`${named}/`));

/** False after a line that says so. */
export function hasSuites(): boolean {
  if (existsSync(folder)) return true;
  console.log('skipped: cases of graphite-web are not here (../shared/suites/graphite)');
  return false;
}

export function readSuite<Suite>(name: string): Suite {
  return JSON.parse(readFileSync(new URL(name, folder), 'utf8')) as Suite;
}
