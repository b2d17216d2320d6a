/**
 * Aggregation rules of the configuration on their way into the key-value store: every coordinator publishes its own when it
 * starts, so that those of the last one that was started hold (docs/AGGREGATION.md, Rules).
 */
import { type RulesTarget, ruleSetPublish } from '#cluster/admin/aggregation_rules.ts';
import { checkRules, rulesOfFile } from '#cluster/aggregation_rules/sets/file.ts';
import type { MappingRule, Rules } from '#cluster/aggregation_rules/rules.ts';
import { NamespaceStore } from '#cluster/namespaces/store.ts';
import type { CarbonRulesConfig, CoordinatorConfig } from '#lib/config/config.ts';
import type { Disk } from '#lib/env/env.ts';
import { badRequest, messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { mappingRulesOfIngester } from './carbon/rules/ingester_rules.ts';
import { mappingRulesOfAggregation } from './carbon/rules/storage_aggregation.ts';
import { mappingRulesOfSchemas } from './carbon/rules/storage_schemas.ts';
import { missingPolicies } from './missing_policies.ts';

const attemptMillisMax = 10_000;
/** Between two attempts, while the store is away or awaits approval. */
const pauseMillis = 5_000;

/**
 * Those of `downsample.rules`, and with them those of Carbon.
 * @returns null for none, which leaves those that are there
 * @throws {TsdbError} BAD_REQUEST naming field, or file and line, reason and value
 * @throws {Error} naming the setting whose file cannot be read
 */
export async function configuredRules(
  config: Pick<CoordinatorConfig, 'aggregationRules' | 'carbon'>,
  disk: Pick<Disk, 'readFile'>,
): Promise<Rules | null> {
  const path = 'coordinator.downsample.rules';
  const { aggregationRules, carbon } = config;
  const own = aggregationRules === undefined ? null : rulesOfFile(aggregationRules, path);
  const ofCarbon = carbon === null ? [] : await rulesOfCarbon(carbon.rules, disk);
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
  disk: Pick<Disk, 'readFile'>,
): Promise<MappingRule[]> {
  const rules = mappingRulesOfIngester(ingester);
  const setting = 'coordinator.carbon.ingester';
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

/** Until they are published; resolves when the signal aborts. */
export async function publishRules(
  target: RulesTarget,
  rules: Rules,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  const { clock } = target;
  let isFailing = false;
  while (!signal.aborted) {
    try {
      const until = clock.deadline(attemptMillisMax, signal);
      const version = await ruleSetPublish(target, rules, until);
      log.info({ version }, 'the aggregation rules of the configuration hold');
      await tellMissing(target, rules, log, until);
      return;
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof TsdbError)) throw error;
      const fields = { error: messageOf(error) };
      if (!isFailing)
        log.warn(fields, 'the aggregation rules of the configuration are not published yet');
      isFailing = true;
    }
    await clock.sleep(pauseMillis, signal).catch(() => {});
  }
}

/** A policy that no namespace has is no mistake: the namespace may come later. */
async function tellMissing(
  { kv, cluster }: RulesTarget,
  rules: Rules,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  const registry = (await new NamespaceStore(kv, cluster).get(signal)).value;
  const missing = missingPolicies(rules, registry);
  if (missing.length === 0) return;
  log.warn(
    { policies: missing },
    'aggregation rules name resolutions for longer than samples are kept, which no namespace has: nothing is kept there',
  );
}
