/** Rules of the configuration of a coordinator: mapping and rollup rules, and with them those of Carbon (docs/LINES.md). */
import type { CarbonRulesConfig } from '#lib/config/config.ts';
import type { Disk } from '#lib/env/env.ts';
import { badRequest, messageOf } from '#lib/errors.ts';
import type { MappingRule, Rules } from '../rules.ts';
import { checkRules, rulesOfFile } from '../sets/file.ts';
import { mappingRulesOfIngester } from './ingester_rules.ts';
import { mappingRulesOfAggregation } from './storage_aggregation.ts';
import { mappingRulesOfSchemas } from './storage_schemas.ts';

/** Where they are in it. */
export const rulesSetting = 'downsample.rules';
export const carbonSetting = 'carbon.ingester';

export interface WrittenRules {
  /** `downsample.rules` as they are written; undefined when there are none. */
  readonly own: unknown;
  /** Null for none. */
  readonly carbon: CarbonRulesConfig | null;
}

/**
 * @param section of the configuration that has the settings, with a dot behind it, for errors; '' when it is the whole
 * @returns null for none, which leaves those that are there
 * @throws {TsdbError} BAD_REQUEST naming field, or file and line, reason and value
 * @throws {Error} naming the setting whose file cannot be read
 */
export async function configuredRules(
  { own: written, carbon }: WrittenRules,
  section: string,
  disk: Pick<Disk, 'readFile'>,
): Promise<Rules | null> {
  const path = `${section}${rulesSetting}`;
  const own = written === undefined ? null : rulesOfFile(written, path);
  const setting = `${section}${carbonSetting}`;
  const ofCarbon = carbon === null ? [] : await rulesOfCarbon(carbon, setting, disk);
  if (ofCarbon.length === 0) return own;
  const rules = {
    mappingRules: [...(own?.mappingRules ?? []), ...ofCarbon],
    rollupRules: own?.rollupRules ?? [],
  };
  checkRules(rules, path);
  return rules;
}

async function rulesOfCarbon(
  { ingester, storageSchemas, storageAggregation }: CarbonRulesConfig,
  setting: string,
  disk: Pick<Disk, 'readFile'>,
): Promise<MappingRule[]> {
  const rules = mappingRulesOfIngester(ingester, setting);
  if (rules.length > 0 && (storageSchemas !== null || storageAggregation !== null)) {
    throw badRequest(
      `${setting}.rules: storageSchemas and storageAggregation say the same in another way: give these, or rules`,
    );
  }
  for (const [key, path, read] of [
    ['storageSchemas', storageSchemas, mappingRulesOfSchemas],
    ['storageAggregation', storageAggregation, mappingRulesOfAggregation],
  ] as const) {
    if (path === null) continue;
    rules.push(...read(await textOf(path, `${setting}.${key}`, disk), path));
  }
  return rules;
}

async function textOf(
  path: string,
  setting: string,
  disk: Pick<Disk, 'readFile'>,
): Promise<string> {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(await disk.readFile(path));
  } catch (error) {
    throw new Error(`${setting}: cannot read ${path}: ${messageOf(error)}`, { cause: error });
  }
}
