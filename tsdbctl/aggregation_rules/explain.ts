/** What aggregation rules say of a series, in words. */
import { ruleWarnings } from '#cluster/admin/rule_warnings.ts';
import {
  type Pipeline,
  RuleMatcher,
  type Stage,
  valueTypeOf,
} from '#cluster/aggregation_rules/match.ts';
import {
  isSamePolicy,
  type Rules,
  type StoragePolicy,
  windowTypeOf,
} from '#cluster/aggregation_rules/rules.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import { nodeTag } from '#lib/series_id/from_tags.ts';
import { metricNameTag, sortTags, type Tag, type Tags } from '#lib/tags.ts';
import { formatDurationNanos } from '#lib/time.ts';

/** Before the path of a series of Carbon. */
const pathPrefix = 'path:';

/**
 * @param pairs as `job=api`; the metric's name may stand alone, or a path with `path:` before it
 * @throws {TsdbError} BAD_REQUEST naming what is no tag
 */
export function tagsOfPairs(pairs: readonly string[]): Tags {
  if (pairs.length === 0) throw badRequest('METRIC is not given');
  const values = new Map<string, string>();
  const [first, ...others] = pairs;
  if (others.length === 0 && first!.startsWith(pathPrefix)) {
    const nodes = first!.slice(pathPrefix.length).split('.');
    if (nodes.includes('')) throw badRequest(`not a path as path:a.b: ${shownText(first!)}`);
    return sortTags(nodes.map((value, node) => ({ name: nodeTag(node), value })));
  }
  for (const pair of pairs) {
    const at = pair.indexOf('=');
    const [name, value] = at < 0 ? [metricNameTag, pair] : [pair.slice(0, at), pair.slice(at + 1)];
    if (name === '' || value === '') throw badRequest(`not a tag as job=api: ${shownText(pair)}`);
    if (values.has(name)) throw badRequest(`a tag is given twice: ${shownText(name)}`);
    values.set(name, value);
  }
  return [...values].map(([name, value]) => ({ name, value }));
}

/** That all can be used, how many there are, and what of them does nothing. */
export function rulesText(rules: Rules): string {
  const { mappingRules, rollupRules } = rules;
  return [
    `${mappingRules.length} mapping rules and ${rollupRules.length} rollup rules: all can be used`,
    ...warningLines(ruleWarnings(rules, null)),
  ].join('\n');
}

export function warningLines(warnings: readonly string[]): string[] {
  return warnings.map((warning) => `  ! ${warning}`);
}

/** @param there policies of the READY namespaces of the cluster; null where they are not known */
export function explainSeries(
  rules: Rules,
  tags: readonly Tag[],
  there: readonly StoragePolicy[] | null = null,
): string {
  const matcher = new RuleMatcher(rules);
  const match = matcher.match(tags);
  const { mappings, drops, pipelines } = match;
  const lines = [seriesText(tags)];
  const isThere = (policy: StoragePolicy): boolean =>
    there === null || there.some((each) => isSamePolicy(each, policy));
  const policyText = (policy: StoragePolicy): string => {
    const { resolutionNanos, retentionNanos } = policy;
    const text = `${formatDurationNanos(resolutionNanos)} for ${formatDurationNanos(retentionNanos)}`;
    return isThere(policy) ? text : `${text} (no READY namespace has this)`;
  };
  const policiesText = (policies: readonly StoragePolicy[]): string =>
    policies.map(policyText).join(', ');
  for (const mapping of mappings) {
    const type = windowTypeOf(mapping);
    const kept = mapping.storagePolicies.map((policy) => {
      const read = valueTypeOf(match, policy);
      const text = policyText(policy);
      if (read !== (type ?? 'Last')) return `${text} (read as ${read}, which another rule says)`;
      return `${text}${typesText(type === null ? [] : [type])}`;
    });
    lines.push(`  kept at ${kept.join(', ')}: mapping rule ${quoted(mapping.name)}`);
  }
  const named = mappings.length > 0 ? mappings : pipelines.map(({ target }) => target);
  const isInVain =
    named.length > 0 &&
    !named.some(({ storagePolicies }) => storagePolicies.some((policy) => isThere(policy)));
  for (const { name } of drops) {
    lines.push(
      isInVain
        ? `  its rows are kept as they come all the same, though mapping rule ${quoted(name)} drops: else they would be kept nowhere`
        : `  its rows are not kept as they come: mapping rule ${quoted(name)} drops`,
    );
  }
  if (drops.length === 0 && mappings.some(({ onlyNamed }) => onlyNamed)) {
    lines.push('  its rows are kept as they come, and at no other resolution');
  } else if (drops.length === 0) {
    const but = mappings.length === 0 ? '' : ', but for those of the resolutions above';
    lines.push(`  its rows are kept as they come, and at every resolution that takes all${but}`);
  }
  const { stepNanos, aggregation } = matcher.pathReading(tags);
  const step = stepNanos === null ? '' : ` every ${formatDurationNanos(stepNanos)}`;
  if (step !== '' || aggregation !== null) {
    lines.push(`  read by Graphite${step}${typesText(aggregation === null ? [] : [aggregation])}`);
  }
  for (const pipeline of pipelines) {
    const { rule, target } = pipeline;
    const policies = policiesText(target.storagePolicies);
    lines.push(
      `  rolled up at ${policies}: rollup rule ${quoted(rule.name)}`,
      ...pipelineLines(pipeline),
    );
  }
  return lines.join('\n');
}

function pipelineLines({ aggregations, output, stages }: Pipeline): string[] {
  const from = output === null ? 'its own windows' : seriesText(output);
  return [
    `    ${from}${typesText(aggregations)}`,
    ...stages.map((stage) => `    then ${stageText(stage)}`),
  ];
}

function stageText(stage: Stage): string {
  if (stage.type === 'transform') return stage.transform;
  return `${seriesText(stage.output)}${typesText(stage.aggregations)}`;
}

function typesText(types: readonly string[]): string {
  return types.length === 0 ? '' : ` as ${types.join(', ')}`;
}

function seriesText(tags: Tags): string {
  const name = tags.find((tag) => tag.name === metricNameTag)?.value ?? '';
  const others = tags.filter((tag) => tag.name !== metricNameTag);
  return `${name}{${others.map((tag) => `${tag.name}=${quoted(tag.value)}`).join(', ')}}`;
}

function quoted(text: string): string {
  return JSON.stringify(text);
}
