import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';
import { specOf } from '../world_testing.ts';
import { refusalsOf } from './refusals.ts';

const root = join(import.meta.dirname, '../..');
const none = new Set<never>();

test('nothing of the examples is refused', () => {
  const clusters = globSync(join(root, 'manifests/examples/*.yaml')).flatMap((file) =>
    parseAllDocuments(readFileSync(file, 'utf8'))
      .map((document) => document.toJS())
      .filter(({ kind }) => kind === 'TSDBCluster'),
  );
  assert.ok(clusters.length >= 3, 'the examples are found');
  for (const cluster of clusters) assert.deepEqual(refusalsOf(cluster, none), []);
});

test('of many mistakes the first are named, and how many more there are', () => {
  const keys = Array.from({ length: 9 }, (_, index) => [`unknown${index}`, 1]);
  const podTemplate = { spec: Object.fromEntries(keys), metadata: { name: 'x' } };
  const config = { listenAddress: ':1', typo: 1 };
  const cluster = { spec: specOf({ coordinator: { podTemplate, config } }) } as TsdbCluster;
  const [template, settings, ...others] = refusalsOf(cluster, none);
  assert.deepEqual(others, []);
  assert.equal(template!.reason, 'PodTemplateRefused');
  assert.match(template!.message, /unknown4 needs the right machine, [^;]*; and 5 more$/);
  assert.deepEqual(
    [settings!.component, settings!.reason, settings!.message],
    ['coordinator', 'ConfigRefused', 'coordinator.config.listenAddress is set by the operator'],
  );
});
