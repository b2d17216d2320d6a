/** Aggregation rules of a file: rules alone, or the configuration of a coordinator that has some. */
import { rulesOfFile } from '#cluster/aggregation_rules/sets/file.ts';
import type { Rules } from '#cluster/aggregation_rules/rules.ts';
import {
  type ConfigFile,
  type ConfigTree,
  pathSeparator,
  readConfigFiles,
} from '#lib/config/text.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';

/** Ten thousand rules have some three hundred thousand. */
const nodesMax = 2_000_000;

/** Where rules may be, the nearest first. */
const places: readonly (readonly string[])[] = [
  ['downsample', 'rules'],
  ['coordinator', 'downsample', 'rules'],
];

export interface RuleFile {
  /** As they are written, for who takes such a file. */
  readonly body: unknown;
  readonly rules: Rules;
}

/**
 * @throws {TsdbError} BAD_REQUEST that names file, line, field, reason and value
 */
export function readRuleFile(
  file: ConfigFile,
  environment: Readonly<Record<string, string | undefined>>,
): RuleFile {
  const problems: string[] = [];
  const tree = readConfigFiles([file], environment, problems, nodesMax);
  if (problems.length > 0) throw badRequest(problems.join('\n'));
  const place = places.find((each) => valueAt(tree.value, each) !== undefined) ?? [];
  try {
    const body = valueAt(tree.value, place);
    return { body, rules: rulesOfFile(body, place.join('.')) };
  } catch (error) {
    if (!(error instanceof TsdbError)) throw error;
    throw badRequest(`${file.path}:${lineOf(error.message, tree)}: ${error.message}`);
  }
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  let found = value;
  for (const key of path) {
    if (typeof found !== 'object' || found === null) return undefined;
    found = (found as Record<string, unknown>)[key];
  }
  return found;
}

/** The line of the first field that a message names, or of what that is in. */
function lineOf(message: string, tree: ConfigTree): number {
  for (const [field] of message.matchAll(/[\w.[\]]+/g)) {
    const path = field.split(/[.[\]]+/).filter((key) => key !== '');
    for (; path.length > 0; path.pop()) {
      const location = tree.locations.get(path.join(pathSeparator));
      if (location !== undefined) return location.line;
    }
  }
  return 1;
}
