/**
 * What a configuration may say: the sections `coordinator:`, `db:` and `aggregator:` with their defaults, as one
 * schema. The files config_*.ts that make it up are the one place that knows zod. Settings of M3
 * fall into three kinds: those that we have, those that tune a mechanism that we do not need (taken
 * and noted), and those for features that are not there (refused, because ignoring them would
 * surprise).
 */
import type { z } from 'zod';
import { aggregatorSchema } from './aggregator_schema.ts';
import { coordinatorSchema } from './coordinator_schema.ts';
import { dbSchema } from './db_schema.ts';
import { nearestKey } from './nearest_key.ts';
import { shownJson } from '../../json_fields.ts';
import type { AggregatorSection, CoordinatorSection, DbSection } from './sections.ts';

/** Checks section `coordinator:`. */
export function checkCoordinatorSection(value: unknown): Checked<CoordinatorSection> {
  return check(coordinatorSchema, value);
}

/** Checks section `db:`. */
export function checkDbSection(value: unknown): Checked<DbSection> {
  return check(dbSchema, value);
}

/** Checks section `aggregator:`. */
export function checkAggregatorSection(value: unknown): Checked<AggregatorSection> {
  return check(aggregatorSchema, value);
}

/** One mistake; `path` leads to the value, or to the mapping that holds the unknown key. */
export interface SchemaProblem {
  readonly path: readonly string[];
  readonly reason: string;
}

/** A section with all defaults, or every problem with it. */
export type Checked<Section> =
  | { readonly value: Section }
  | { readonly problems: readonly SchemaProblem[] };

function check<Section>(schema: z.ZodType<Section>, value: unknown): Checked<Section> {
  const result = schema.safeParse(value);
  if (result.success) return { value: result.data };
  return { problems: result.error.issues.flatMap((issue) => problemsOf(issue, schema, value)) };
}

function problemsOf(issue: z.core.$ZodIssue, schema: z.ZodType, root: unknown): SchemaProblem[] {
  const path = issue.path.map(String);
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => {
      const nearest = nearestKey(schema, path, key);
      const meant = nearest === null ? '' : `; did you mean ${nearest}?`;
      return { path: [...path, key], reason: `unknown key${meant}` };
    });
  }
  const value = valueAt(root, path);
  if (value === undefined) {
    const reason = issue.code === 'custom' ? issue.message : 'is required';
    return [{ path, reason }];
  }
  return [{ path, reason: `${reasonOf(issue)}: ${shown(value, path)}` }];
}

function reasonOf(issue: z.core.$ZodIssue): string {
  if (issue.code === 'invalid_type') {
    return `must be ${kindNames[issue.expected] ?? issue.expected}`;
  }
  // A message of the schema says more than the one made from the rule.
  if (!/^(?:Invalid|Too)/.test(issue.message)) return issue.message;
  if (issue.code === 'invalid_value')
    return `must be one of ${issue.values.map(String).join(', ')}`;
  if (issue.code === 'too_small') return `must be at least ${issue.minimum}`;
  if (issue.code === 'too_big') return `must be at most ${issue.maximum}`;
  return issue.message;
}

const kindNames: Record<string, string> = {
  string: 'text (put it in quotes)',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'a mapping',
  array: 'a list',
};

function valueAt(root: unknown, path: readonly string[]): unknown {
  let value = root;
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

/** A value for a message: cut short, and not at all where it may be a secret. */
function shown(value: unknown, path: readonly string[]): string {
  if (/password|token|secret/i.test(path.at(-1) ?? '')) return '(not shown)';
  return shownJson(value);
}
