/** Where cases of other programs are: ../shared/suites beside the project, or the folder that `TSDB_TEST_SUITES` names. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { env } from 'node:process';
import { fileURLToPath, pathToFileURL } from 'node:url';

const named = env['TSDB_TEST_SUITES'];
const folder =
  named === undefined
    ? new URL('../../../shared/suites/', import.meta.url)
    : pathToFileURL(`${named}/`);

/**
 * False after a line that says so.
 * @throws when `TSDB_TEST_SUITES` names a folder that has not got them, and nothing may be left out (`TSDB_TEST_REQUIRE_ALL=1`)
 */
export function hasSuites(name: string): boolean {
  const url = new URL(name, folder);
  if (existsSync(url)) return true;
  const message = `cases are not here: ${fileURLToPath(url)} (TSDB_TEST_SUITES names another folder of suites)`;
  if (named !== undefined && env['TSDB_TEST_REQUIRE_ALL'] === '1') throw new Error(message);
  console.log(`skipped: ${message}`);
  return false;
}

export function readSuite<Suite>(name: string): Suite {
  return JSON.parse(readSuiteText(name)) as Suite;
}

export function readSuiteText(name: string): string {
  return readFileSync(new URL(name, folder), 'utf8');
}

/** Names of the files of a folder of suites, in the order of the alphabet. */
export function filesOfSuites(name: string): string[] {
  return readdirSync(new URL(name, folder)).toSorted();
}
