/**
 * The reference of the resources, from their schemas: `node test/kube/reference.ts` writes
 * docs/RESOURCES.md. A test holds it equal, and that each field has a description and an example.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

const root = join(import.meta.dirname, '..', '..');

interface Schema {
  readonly type?: string;
  readonly description?: string;
  readonly example?: unknown;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly required?: readonly string[];
  readonly enum?: readonly unknown[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
  readonly maxItems?: number;
  readonly pattern?: string;
  readonly additionalProperties?: Schema;
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean;
  readonly 'x-kubernetes-validations'?: readonly { readonly message: string }[];
}

export interface Field {
  readonly path: string;
  readonly schema: Schema;
  readonly isRequired: boolean;
}

/** All fields below, the deeper ones after their parents. */
export function fieldsOf(schema: Schema, path: string): Field[] {
  const inside = schema.items ?? schema;
  // What is named there is what rules are about, not all that there may be.
  if (inside['x-kubernetes-preserve-unknown-fields'] === true) return [];
  const prefix = schema.items === undefined ? path : `${path}[]`;
  return Object.entries(inside.properties ?? {}).flatMap(([name, field]) => [
    {
      path: `${prefix}.${name}`,
      schema: field,
      isRequired: inside.required?.includes(name) ?? false,
    },
    ...fieldsOf(field, `${prefix}.${name}`),
  ]);
}

export const isLeaf = (schema: Schema): boolean =>
  schema['x-kubernetes-preserve-unknown-fields'] === true ||
  (schema.properties === undefined && schema.items?.properties === undefined);

function typeOf(schema: Schema): string {
  if (schema.enum !== undefined) return schema.enum.map((one) => `\`${String(one)}\``).join(', ');
  const bounds =
    schema.minimum === undefined ? '' : `, ${schema.minimum} to ${schema.maximum ?? 'any'}`;
  if (schema.type === 'array') return `list, ${schema.maxItems ?? 'any'} at most`;
  return `${schema.type ?? 'any'}${bounds}`;
}

function rulesOf(path: string, schema: Schema): string[] {
  const own = (schema['x-kubernetes-validations'] ?? []).map(({ message }) => message);
  const inside = schema.items === undefined ? [] : rulesOf(`${path}[]`, schema.items);
  const below = Object.entries(schema.properties ?? {}).flatMap(([name, field]) =>
    rulesOf(`${path}.${name}`, field),
  );
  return [...own.map((message) => `\`${path}\`: ${message}`), ...inside, ...below];
}

const yamlOf = (example: unknown): string =>
  example === undefined
    ? ''
    : `\`${typeof example === 'string' ? example : JSON.stringify(example)}\``;

interface Definition {
  readonly spec: {
    readonly names: { readonly kind: string };
    readonly versions: readonly {
      readonly name: string;
      readonly schema: { readonly openAPIV3Schema: Schema };
    }[];
  };
}

export function definitionOf(name: string): { readonly kind: string; readonly schema: Schema } {
  const definition = parse(readFileSync(join(root, 'crds', `${name}.yaml`), 'utf8')) as Definition;
  const { names, versions } = definition.spec;
  return { kind: names.kind, schema: versions[0]!.schema.openAPIV3Schema };
}

export const definitionNames = ['tsdbclusters', 'tsdbnamespaces'] as const;

/** The page. */
export function reference(): string {
  const lines = [
    '# Resources',
    'Made from `crds/` by `node test/kube/reference.ts`. What the operator makes of them is in [OPERATOR.md](OPERATOR.md).',
  ];
  for (const name of definitionNames) {
    const { kind, schema } = definitionOf(name);
    const { spec, status } = schema.properties as Record<string, Schema>;
    lines.push('', `## ${kind}`, schema.description ?? '', '');
    lines.push('| field | type | what | example |', '| --- | --- | --- | --- |');
    for (const { path, schema: field, isRequired } of fieldsOf(spec!, 'spec')) {
      const what = `${isRequired ? '**Required.** ' : ''}${field.description ?? ''}`;
      lines.push(`| \`${path}\` | ${typeOf(field)} | ${what} | ${yamlOf(field.example)} |`);
    }
    lines.push('', 'Refused by the API server, with these words:', '');
    for (const rule of [...new Set(rulesOf('', schema))])
      lines.push(`- ${rule.replace('``: ', '')}`);
    lines.push('', 'Its status:', '', '| field | what |', '| --- | --- |');
    for (const { path, schema: field } of fieldsOf(status!, 'status'))
      lines.push(`| \`${path}\` | ${field.description ?? ''} |`);
  }
  return `${lines.join('\n')}\n`;
}

export const referencePath: string = join(root, 'docs/RESOURCES.md');

if (process.argv[1] === import.meta.filename) writeFileSync(referencePath, reference());
