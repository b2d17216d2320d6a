/** Aggregation rules of a file: rules alone, or the configuration of a coordinator that has some. */
import {
  carbonSetting,
  configuredRules,
  rulesSetting,
} from '#cluster/aggregation_rules/carbon/configured.ts';
import { rulesOfFile } from '#cluster/aggregation_rules/sets/file.ts';
import type { Rules } from '#cluster/aggregation_rules/rules.ts';
import { Fields } from '#cluster/fields.ts';
import type { CarbonRulesConfig } from '#lib/config/config.ts';
import {
  type ConfigFile,
  type ConfigTree,
  pathSeparator,
  readConfigFiles,
} from '#lib/config/resolve/text.ts';
import type { Disk } from '#lib/env/env.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';

/** Ten thousand rules have some three hundred thousand. */
const nodesMax = 2_000_000;

/** Sections that have a coordinator's settings, the nearest first. */
const sections: readonly string[] = ['', 'coordinator.'];

export interface RuleFile {
  /** Mapping and rollup rules as they are written, for who takes such a file; undefined where there are none but Carbon's. */
  readonly body: unknown;
  /** With those of Carbon. */
  readonly rules: Rules;
}

/**
 * @param disk that has Carbon's files
 * @throws {TsdbError} BAD_REQUEST that names file, line, field, reason and value
 * @throws {Error} naming the setting whose file cannot be read
 */
export async function readRuleFile(
  file: ConfigFile,
  environment: Readonly<Record<string, string | undefined>>,
  disk: Pick<Disk, 'readFile'>,
): Promise<RuleFile> {
  const problems: string[] = [];
  const tree = readConfigFiles([file], environment, problems, nodesMax);
  if (problems.length > 0) throw badRequest(problems.join('\n'));
  try {
    for (const section of sections) {
      const own = valueAt(tree.value, `${section}${rulesSetting}`);
      const carbon = carbonRulesOf(tree.value, `${section}${carbonSetting}`);
      const rules = await configuredRules({ own, carbon }, section, disk);
      if (rules !== null) return { body: own, rules };
    }
    return { body: tree.value, rules: rulesOfFile(tree.value, '') };
  } catch (error) {
    if (!(error instanceof TsdbError)) throw error;
    const line = lineOf(error.message, tree);
    throw badRequest(line === null ? error.message : `${file.path}:${line}: ${error.message}`);
  }
}

/** Null where the configuration has no such listener. */
function carbonRulesOf(value: unknown, path: string): CarbonRulesConfig | null {
  const ingester = valueAt(value, path);
  if (ingester === undefined || ingester === null) return null;
  const fields = Fields.of(ingester, path);
  const fileAt = (key: string): string | null => (fields.has(key) ? fields.string(key, '') : null);
  return {
    ingester: valueAt(ingester, 'rules'),
    storageSchemas: fileAt('storageSchemas'),
    storageAggregation: fileAt('storageAggregation'),
  };
}

function valueAt(value: unknown, path: string): unknown {
  let found = value;
  for (const key of path.split('.')) {
    if (typeof found !== 'object' || found === null) return undefined;
    found = (found as Record<string, unknown>)[key];
  }
  return found;
}

/** The line of the first field that a message names, or of what that is in; null where it names a place of another file. */
function lineOf(message: string, tree: ConfigTree): number | null {
  if (/^\S+:\d+: /.test(message)) return null;
  for (const [field] of message.matchAll(/[\w.[\]]+/g)) {
    const path = field.split(/[.[\]]+/).filter((key) => key !== '');
    for (; path.length > 0; path.pop()) {
      const location = tree.locations.get(path.join(pathSeparator));
      if (location !== undefined) return location.line;
    }
  }
  return 1;
}
