/** Where cases of other programs are: ../shared/suites beside the project, or the folder that `TSDB_TEST_SUITES` names. */
import { existsSync, readFileSync } from 'node:fs';
import { env } from 'node:process';
import { pathToFileURL } from 'node:url';

const named = env['TSDB_TEST_SUITES'];
const folder =
  named === undefined
    ? new URL('../../../shared/suites/', import.meta.url)
    : pathToFileURL(`${named}/`);

/** False after a line that says so. */
export function hasSuites(name: string): boolean {
  if (existsSync(new URL(name, folder))) return true;
  console.log(`skipped: cases are not here (../shared/suites/${name})`);
  return false;
}

export function readSuite<Suite>(name: string): Suite {
  return JSON.parse(readFileSync(new URL(name, folder), 'utf8')) as Suite;
}
