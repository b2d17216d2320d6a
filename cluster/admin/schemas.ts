/** Schemas of namespaces as the admin API has them: deployed, reset, and their history. */
import type { Clock, Random } from '#lib/env/env.ts';
import { badRequest } from '#lib/errors.ts';
import { Fields } from '../fields.ts';
import {
  aggregationOf,
  type Namespace,
  namespaceOf,
  type NamespaceRegistry,
} from '../namespaces/namespaces.ts';
import { withoutPromise } from '../namespaces/samples.ts';
import { namespaceNumber } from '../namespaces/numbers.ts';
import {
  checkSchemaBytes,
  type SchemaText,
  schemaTextOf,
  schemaToJson,
  type SchemaVersion,
  withReset,
  withSchema,
} from '../namespaces/schemas.ts';
import type { NamespaceStore } from '../namespaces/store.ts';

export interface SchemaTarget {
  readonly namespaces: NamespaceStore;
  readonly clock: Pick<Clock, 'nowMillis'>;
  /** Gives deployments their IDs. */
  readonly random: Random;
}

export interface SchemaChange {
  /** Check it and write nothing. */
  readonly dryRun: boolean;
}

/**
 * Body of POST schema: `{name, msgName, protoName, protoMap}`.
 * @throws {TsdbError} BAD_REQUEST naming the field
 */
export function deploymentOf(body: unknown): { name: string; text: SchemaText } {
  const fields = Fields.of(body, '');
  const name = fields.string('name', '');
  const text = schemaTextOf(fields);
  fields.end();
  const missing = [
    ['name', name],
    ['msgName', text.messageName],
    ['protoName', text.protoName],
  ].find(([, value]) => value === '');
  if (missing !== undefined) throw badRequest(`missing required field: ${missing[0]}`);
  if (Object.keys(text.protoMap).length === 0) throw badRequest('missing required field: protoMap');
  return { name, text };
}

/**
 * @returns the ID of the deployment; of the one that stands when it is the same
 * @throws {TsdbError} NOT_FOUND for an unknown namespace, BAD_REQUEST naming the field of the schema that is not
 *   supported, or changes its meaning
 */
export async function deploySchema(
  target: SchemaTarget,
  name: string,
  text: SchemaText,
  { dryRun }: SchemaChange,
  signal: AbortSignal,
): Promise<{ readonly deployID: string }> {
  const { clock, random } = target;
  const deployId = Buffer.from(random.bytes(12)).toString('hex');
  const registry = await change(
    target,
    name,
    (schemas, namespace) => {
      checkTakesSchema(namespace);
      return withSchema(schemas, text, deployId, clock.nowMillis());
    },
    dryRun,
    signal,
  );
  return { deployID: registry.get(name)!.schemas!.at(-1)!.deployId };
}

function checkTakesSchema(namespace: Namespace): void {
  if (aggregationOf(namespace) === null) return;
  throw badRequest(
    `cannot deploy schema: namespace ${namespace.name} holds aggregated samples (aggregationOptions), which are no messages`,
  );
}

/**
 * DELETE schema: `{name}`. Values are floats again, and what was written by schemas is read no more.
 * @throws {TsdbError} BAD_REQUEST without `force`, NOT_FOUND
 */
export async function resetSchema(
  target: SchemaTarget,
  body: unknown,
  { dryRun, force }: SchemaChange & { readonly force: boolean },
  signal: AbortSignal,
): Promise<object> {
  const fields = Fields.of(body, '');
  const name = fields.string('name', '');
  fields.end();
  if (name === '') throw badRequest('missing required field: name');
  if (!force) {
    throw badRequest(
      'cannot reset schema: what was written by it would be read no more; say so by the header "Force: true"',
    );
  }
  const { clock, random } = target;
  const deployId = Buffer.from(random.bytes(12)).toString('hex');
  const reset = (schemas: readonly SchemaVersion[]) =>
    withReset(schemas, deployId, clock.nowMillis());
  await change(target, name, reset, dryRun, signal);
  return {};
}

/**
 * GET schema: all that a namespace had, the newest last.
 * @throws {TsdbError} NOT_FOUND
 */
export async function schemaHistory(
  { namespaces }: Pick<SchemaTarget, 'namespaces'>,
  name: string,
  signal: AbortSignal,
): Promise<object> {
  if (name === '') throw badRequest('missing required parameter: name');
  const { value } = await namespaces.get(signal);
  const { schemas = [] } = namespaceOf(value, name);
  return { name, versions: schemas.map(schemaToJson) };
}

async function change(
  { namespaces }: SchemaTarget,
  name: string,
  step: (schemas: readonly SchemaVersion[], namespace: Namespace) => readonly SchemaVersion[],
  dryRun: boolean,
  signal: AbortSignal,
): Promise<NamespaceRegistry> {
  const changed = (registry: NamespaceRegistry): NamespaceRegistry => {
    const namespace = namespaceOf(registry, name);
    const { schemas: before = [] } = namespace;
    const schemas = step(before, namespace);
    if (schemas === before) return registry;
    const number = namespaceNumber(namespace);
    // Samples no longer go into it, or did not.
    const next: Namespace = { ...withoutPromise(namespace), number, schemas };
    const all = new Map(registry).set(name, next);
    checkSchemaBytes([...all.values()].map((each) => each.schemas ?? []));
    return all;
  };
  if (dryRun) return changed((await namespaces.get(signal)).value);
  return namespaces.update(changed, signal);
}
