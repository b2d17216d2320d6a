/**
 * Aggregation rules of the configuration on their way into the key-value store: every coordinator publishes its own when it
 * starts, so that those of the last one that was started hold (docs/AGGREGATION.md, Rules).
 */
import { type RulesTarget, ruleSetPublish } from '#cluster/admin/aggregation_rules.ts';
import type { Rules } from '#cluster/aggregation_rules/rules.ts';
import { NamespaceStore } from '#cluster/namespaces/store.ts';
import { ruleWarnings } from '#cluster/admin/rule_warnings.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';

const attemptMillisMax = 10_000;
/** Between two attempts, while the store is away or awaits approval. */
const pauseMillis = 5_000;

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
      await tellInVain(target, rules, log, until);
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

/** What does nothing is no mistake: a namespace may come later, and rules of M3 may have more. */
async function tellInVain(
  { kv, cluster }: RulesTarget,
  rules: Rules,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  const registry = (await new NamespaceStore(kv, cluster).get(signal)).value;
  const warnings = ruleWarnings(rules, registry);
  if (warnings.length === 0) return;
  log.warn({ warnings }, 'aggregation rules of the configuration have parts that do nothing');
}
