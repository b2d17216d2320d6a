import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
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
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean;
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

function schemaFields(name: string): unknown {
  const path = join(import.meta.dirname, '../../crds', `${name}.yaml`);
  const [version] = parse(readFileSync(path, 'utf8')).spec.versions;
  return fieldsOf(version.schema.openAPIV3Schema.properties.spec);
}

test('the schema of TSDBCluster has the fields that the operator reads, and no others', () => {
  assert.deepEqual(schemaFields('tsdbclusters'), clusterFields);
});

test('the schema of TSDBNamespace has the fields that the operator reads, and no others', () => {
  assert.deepEqual(schemaFields('tsdbnamespaces'), namespaceFields);
});
