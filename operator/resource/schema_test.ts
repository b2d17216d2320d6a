import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { parseDurationNanos } from '#lib/time.ts';
import { quantityOf } from '../desired/quantity.ts';
import type { ClusterSpec } from './tsdb_cluster.ts';
import type { TsdbNamespace } from './tsdb_namespace.ts';

/** Names of all members, down to what has no fixed ones. */
type Fields<Spec> = {
  readonly [Name in keyof Required<Spec>]: FieldsOfValue<NonNullable<Spec[Name]>>;
};
type FieldsOfValue<Value> = Value extends readonly (infer Item)[]
  ? FieldsOfValue<Item>
  : Value extends object
    ? string extends keyof Value
      ? true
      : Fields<Value>
    : true;

const resources = { requests: true, limits: true } as const;
const storage = { className: true, size: true } as const;
const namespace = {
  retentionTime: true,
  blockSize: true,
  bufferPast: true,
  bufferFuture: true,
  coldWritesEnabled: true,
  resolution: true,
  downsampleAll: true,
} as const;

/** The compiler holds these equal to the types, the tests to the schemas. */
const clusterFields: Fields<ClusterSpec> = {
  replicationFactor: true,
  numberOfShards: true,
  nodes: {
    replicasPerGroup: true,
    image: true,
    storage,
    resources,
    replaceAfter: true,
    config: true,
    podTemplate: true,
    maxUnavailable: true,
  },
  isolationGroups: { name: true, nodeAffinity: true, storageClassName: true },
  etcd: {
    replicas: true,
    image: true,
    storage,
    resources,
    snapshots: { schedule: true, keep: true, storage },
    podTemplate: true,
    tls: { serverSecret: true, clientSecret: true },
    external: { endpoints: true, tlsSecret: true },
  },
  coordinator: {
    replicas: true,
    image: true,
    resources,
    podTemplate: true,
    config: true,
    service: { annotations: true },
  },
  aggregator: { pairs: true, image: true, resources, podTemplate: true, config: true },
  namespaces: { name: true, ...namespace },
  updatePolicy: true,
  maintenanceWindows: { days: true, start: true, duration: true, timeZone: true },
  deletionPolicy: { data: true, metadata: true },
  paused: true,
  networkPolicies: true,
  podTemplate: true,
};
const namespaceFields: Fields<TsdbNamespace['spec']> = {
  ...namespace,
  clusterRef: { name: true },
  name: true,
  reclaimPolicy: true,
};

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly pattern?: string;
  readonly maxLength?: number;
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean;
  readonly 'x-kubernetes-validations'?: readonly {
    readonly rule: string;
    readonly message: string;
  }[];
}

function fieldsOf(schema: Schema): unknown {
  const { properties, items } = schema;
  // What rules say of its members is not all that it may have.
  if (schema['x-kubernetes-preserve-unknown-fields'] === true) return true;
  if (items !== undefined) return fieldsOf(items);
  if (properties === undefined) return true;
  return Object.fromEntries(
    Object.entries(properties).map(([name, property]) => [name, fieldsOf(property)]),
  );
}

function specSchema(name: string): Schema {
  const path = join(import.meta.dirname, '../../crds', `${name}.yaml`);
  const [version] = parse(readFileSync(path, 'utf8')).spec.versions;
  return version.schema.openAPIV3Schema.properties.spec;
}

const schemaFields = (name: string): unknown => fieldsOf(specSchema(name));

test('the schema of TSDBCluster has the fields that the operator reads, and no others', () => {
  assert.deepEqual(schemaFields('tsdbclusters'), clusterFields);
});

test('the schema of TSDBNamespace has the fields that the operator reads, and no others', () => {
  assert.deepEqual(schemaFields('tsdbnamespaces'), namespaceFields);
});

/** Texts of a field that the rule `self.matches(…) && …` lets pass; the API server itself: test/kube/definitions_test.ts. */
function matchesOf(name: string, path: string): (text: string) => boolean {
  let schema = specSchema(name);
  for (const part of path.split('.')) {
    schema = (schema.items ?? schema).properties![part]!;
  }
  const [{ rule, message }] = schema['x-kubernetes-validations']! as [
    { readonly rule: string; readonly message: string },
  ];
  assert.match(message, /^must be .*, for example /, path);
  const patterns = [...rule.matchAll(/self\.matches\('([^']+)'\)/g)].map(
    ([, one]) => new RegExp(one!),
  );
  const said = patterns.map(({ source }) => `self.matches('${source}')`).join(' && ');
  assert.equal(rule, said, 'nothing else is in it');
  return (text) => patterns.every((pattern) => pattern.test(text));
}

test('durations and sizes that the definitions let pass are ones to the operator', () => {
  const durations = [
    ...['namespaces.retentionTime', 'namespaces.blockSize', 'namespaces.bufferPast'],
    ...['namespaces.bufferFuture', 'namespaces.resolution', 'maintenanceWindows.duration'],
  ].map((path) => [path, matchesOf('tsdbclusters', path)] as const);
  for (const field of ['retentionTime', 'blockSize', 'bufferPast', 'bufferFuture', 'resolution'])
    durations.push([field, matchesOf('tsdbnamespaces', field)]);
  for (const [path, matches] of durations) {
    for (const text of ['48h', '1h30m', '7d', '2w', '1ms', '010m']) {
      assert.ok(matches(text), `${path}: ${text}`);
      assert.ok(parseDurationNanos(text, path) > 0n);
    }
    for (const text of ['', '48', 'h', 'two days', '1.5h', '-1h', '2 h', '1y', '48h\n'])
      assert.ok(!matches(text), `${path}: ${JSON.stringify(text)}`);
    assert.equal(matches('0s'), /buffer/.test(path), `${path}: 0s`);
  }
  const replaceAfter = matchesOf('tsdbclusters', 'nodes.replaceAfter');
  for (const text of ['never', '15m', '1h30m']) assert.ok(replaceAfter(text), text);
  for (const text of ['later', '15', 'never15m', '']) assert.ok(!replaceAfter(text), text);
  for (const path of ['nodes.storage.size', 'etcd.storage.size', 'etcd.snapshots.storage.size']) {
    const matches = matchesOf('tsdbclusters', path);
    for (const text of ['100Gi', '0.5Ti', '1000000', '20G', '010Mi']) {
      assert.ok(matches(text), `${path}: ${text}`);
      assert.ok(quantityOf(text) > 0);
    }
    for (const text of ['', '0', '0Gi', '0.0Gi', '100GB', 'big', '-1Gi', '.5Gi', '1e3', '1 Gi'])
      assert.ok(!matches(text), `${path}: ${text}`);
  }
});

test('a TSDBNamespace names what can be the name of a TSDBCluster, and nothing else', () => {
  const { clusterRef } = specSchema('tsdbnamespaces').properties!;
  const { pattern, maxLength } = clusterRef!.properties!['name']!;
  const matches = (name: string): boolean =>
    new RegExp(pattern!).test(name) && name.length <= maxLength!;
  for (const name of ['c', 'metrics', 'a-1', 'a'.repeat(30)]) assert.ok(matches(name), name);
  const others = ['', 'c/x', '/c', 'c%2Fx', '../c', 'C', '1c', 'c-', 'c.d', 'c\n', 'a'.repeat(31)];
  for (const name of others) assert.ok(!matches(name), JSON.stringify(name));
});
