/** Sets of rules of a cluster, in words: what they are, were, and come to be. */
import { realEnv } from '#lib/env/real.ts';
import { readyPolicies } from '#cluster/admin/rule_warnings.ts';
import { ruleSetOfR2 } from '#cluster/aggregation_rules/sets/r2_json.ts';
import type { Rules, StoragePolicy } from '#cluster/aggregation_rules/rules.ts';
import { Fields } from '#cluster/fields.ts';
import { registryFromJson } from '#cluster/namespaces/json.ts';
import { shownText, TsdbError } from '#lib/errors.ts';
import { callCoordinator, type SendJson, servicePath } from '../coordinator.ts';
import { warningLines } from './explain.ts';

export interface SetOptions {
  /** URL of a coordinator. */
  readonly coordinator: string;
  /** Its name. */
  readonly set: string;
}

export interface ApplyOptions extends SetOptions {
  /** Changes nothing. */
  readonly dryRun: boolean;
  /** Also rules that come from the configuration of coordinators. */
  readonly force: boolean;
  /** Who it is, for the history. */
  readonly by: string;
}

/** What is read here of a rule of the API's answers. */
interface Rule {
  readonly id: string;
  readonly name: string;
  readonly tombstoned: boolean;
  readonly filter: string;
  readonly cutoverMillis: number;
  readonly lastUpdatedBy: string;
  readonly lastUpdatedAtMillis: number;
  readonly storagePolicies?: readonly string[];
  readonly dropPolicy?: number;
  readonly aggregation?: readonly string[] | null;
  readonly path?: { readonly pattern?: string; readonly contains?: string };
  readonly onlyNamed?: boolean;
  readonly targets?: readonly { readonly storagePolicies: readonly string[] }[];
}

interface RuleSet {
  readonly id: string;
  readonly version: number;
  readonly cutoverMillis: number;
  readonly mappingRules: readonly Rule[];
  readonly rollupRules: readonly Rule[];
  /** Of a change: what of the rules does nothing. */
  readonly warnings?: readonly string[];
}

const setsPath = '/r2/v1/namespaces';
const kinds = [
  { key: 'mappingRules', path: 'mapping-rules', what: 'mapping rule' },
  { key: 'rollupRules', path: 'rollup-rules', what: 'rollup rule' },
] as const;

/**
 * The rules as they were written last.
 * @param set null for all sets
 * @throws {TsdbError} with the coordinator's own words
 */
export async function setsText(
  send: SendJson,
  { coordinator, set }: { readonly coordinator: string; readonly set: string | null },
): Promise<string> {
  const names = set === null ? await namesOf(send, coordinator) : [set];
  if (names.length === 0) return 'there are no rules';
  const texts: string[] = [];
  for (const name of names) {
    texts.push(setText(await setOf(send, { coordinator, set: name }), realEnv.clock.nowMillis()));
  }
  return texts.join('\n');
}

async function namesOf(send: SendJson, coordinator: string): Promise<string[]> {
  const what = 'list the sets of rules';
  const answer = await callCoordinator(send, { coordinator, method: 'GET', path: setsPath, what });
  const { namespaces } = answer as { readonly namespaces: readonly { readonly id: string }[] };
  return namespaces.map(({ id }) => id);
}

async function setOf(send: SendJson, { coordinator, set }: SetOptions): Promise<RuleSet> {
  const path = pathOf(set);
  const what = `read the set of rules ${set}`;
  return (await callCoordinator(send, { coordinator, method: 'GET', path, what })) as RuleSet;
}

function pathOf(...parts: readonly string[]): string {
  return [setsPath, ...parts.map(encodeURIComponent)].join('/');
}

/** The rules of a set, for who asks what becomes of a series. */
export async function rulesOfSet(send: SendJson, options: SetOptions): Promise<Rules> {
  return ruleSetOfR2(Fields.of(await setOf(send, options), '')).rules;
}

/** By which rules name the READY aggregated namespaces of the cluster. */
export async function policiesOfCluster(
  send: SendJson,
  coordinator: string,
): Promise<StoragePolicy[]> {
  const path = `${servicePath}/namespace`;
  const what = 'list the namespaces';
  const answer = await callCoordinator(send, { coordinator, method: 'GET', path, what });
  const { registry } = answer as { readonly registry: unknown };
  return readyPolicies(registryFromJson(registry, []));
}

/**
 * Has the rules of a file be all that a set has.
 * @param body the rules as the file has them
 * @returns what changes, in words
 * @throws {TsdbError} with the coordinator's own words
 */
export async function applyRules(
  send: SendJson,
  body: unknown,
  { coordinator, set, dryRun, force, by }: ApplyOptions,
): Promise<string> {
  const sets = await namesOf(send, coordinator);
  const before = sets.includes(set) ? await setOf(send, { coordinator, set }) : null;
  const after = (await callCoordinator(send, {
    coordinator,
    method: 'PUT',
    path: `${pathOf(set, 'ruleset')}${force ? '?force=true' : ''}`,
    // An empty file has no rules.
    body: body ?? {},
    headers: { 'tsdb-user': by, ...(dryRun ? { 'dry-run': 'true' } : {}) },
    what: `apply the rules to the set ${set}`,
  })) as RuleSet;
  const lines = changeLines(before, after);
  const warnings = warningLines(after.warnings ?? []);
  if (lines.length === 0) return [`set ${set}: nothing changes`, ...warnings].join('\n');
  const changes = lines.length === 1 ? '1 change' : `${lines.length} changes`;
  const head = dryRun
    ? `set ${set}: ${changes} would be made`
    : `set ${set}, version ${after.version}: ${changes} made`;
  // The latest cut-over of all that a set has had is that of its last change.
  return [`${head}${fromText(after.cutoverMillis)}`, ...lines, ...warnings].join('\n');
}

function fromText(millis: number): string {
  return `, from ${timeText(millis)} on`;
}

function changeLines(before: RuleSet | null, after: RuleSet): string[] {
  return kinds.flatMap(({ key, what }) => {
    const known = byId(before?.[key] ?? []);
    const now = byId(after[key]);
    const lines: string[] = [];
    for (const rule of now.values()) {
      const old = known.get(rule.id);
      if (old === undefined) lines.push(`  + ${ruleText(what, rule)}`);
      else if (old.lastUpdatedAtMillis !== rule.lastUpdatedAtMillis) {
        lines.push(`  ~ ${ruleText(what, rule)}`);
      }
    }
    for (const rule of known.values()) {
      if (!now.has(rule.id)) lines.push(`  - ${ruleText(what, rule)}`);
    }
    return lines;
  });
}

function byId(rules: readonly Rule[]): ReadonlyMap<string, Rule> {
  return new Map(rules.map((rule) => [rule.id, rule]));
}

/**
 * What a rule has been, the newest first.
 * @param rule its name, or its ID: who is deleted has no name any more
 */
export async function historyText(
  send: SendJson,
  rule: string,
  options: SetOptions,
): Promise<string> {
  const { coordinator, set } = options;
  const standing = await setOf(send, options);
  const named = kinds.flatMap((kind) =>
    standing[kind.key].filter(({ id, name }) => name === rule || id === rule).map(({ id }) => id),
  );
  const found: string[] = [];
  for (const { key, path, what } of kinds) {
    for (const id of named.length === 0 ? [rule] : named) {
      const versions = await historyOf(send, {
        coordinator,
        path: pathOf(set, path, id, 'history'),
        key,
      });
      for (const version of versions.toReversed()) {
        const by = version.lastUpdatedBy === '' ? '' : ` by ${shownText(version.lastUpdatedBy)}`;
        const when = `from ${timeText(version.cutoverMillis)} on (written ${timeText(version.lastUpdatedAtMillis)}${by})`;
        found.push(`${when}\n  ${version.tombstoned ? 'deleted: ' : ''}${ruleText(what, version)}`);
      }
    }
  }
  if (found.length > 0) return found.join('\n');
  throw new TsdbError('NOT_FOUND', `the set ${set} has no rule of this name or ID: ${rule}`);
}

/** Empty when there is no rule of the kind that has the ID. */
async function historyOf(
  send: SendJson,
  {
    coordinator,
    path,
    key,
  }: {
    readonly coordinator: string;
    readonly path: string;
    readonly key: (typeof kinds)[number]['key'];
  },
): Promise<readonly Rule[]> {
  const none = { status: 200, text: '{}' };
  const answer = await callCoordinator(
    async (...request) => {
      const response = await send(...request);
      return response.status === 404 ? none : response;
    },
    { coordinator, method: 'GET', path, what: 'read the history of the rule' },
  );
  return (answer as Partial<Record<typeof key, readonly Rule[]>>)[key] ?? [];
}

function setText(set: RuleSet, nowMillis: number): string {
  const lines = kinds.flatMap(({ key, what }) =>
    set[key].map((rule) => {
      const isToCome = rule.cutoverMillis > nowMillis;
      return `  ${ruleText(what, rule)}${isToCome ? fromText(rule.cutoverMillis) : ''}`;
    }),
  );
  return [
    `${set.id}, version ${set.version}${lines.length === 0 ? ': no rules' : ':'}`,
    ...lines,
  ].join('\n');
}

function ruleText(what: string, rule: Rule): string {
  const { id, name, storagePolicies, dropPolicy, targets, aggregation } = rule;
  const policies = storagePolicies ?? targets?.flatMap((target) => target.storagePolicies) ?? [];
  const drops = dropPolicy === undefined || dropPolicy === 0 ? [] : ['drop'];
  const read = policies.length === 0 && drops.length === 0 ? (aggregation ?? []) : [];
  const only = rule.onlyNamed === true ? ' only' : '';
  const effects = [...new Set(policies), ...drops, ...read].join(', ');
  return `${what} ${JSON.stringify(name)} (${id}): ${seriesText(rule)} -> ${effects}${only}`;
}

function seriesText({ filter, path }: Rule): string {
  if (path === undefined) return filter;
  const condition =
    path.pattern === undefined ? `path with ${path.contains}` : `path ~ ${path.pattern}`;
  return filter === '' ? condition : `${filter} ${condition}`;
}

function timeText(millis: number): string {
  return new Date(millis).toISOString().replace('.000Z', 'Z');
}
