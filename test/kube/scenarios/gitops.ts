/** Applied as Argo CD and Flux do: built by kustomize, server-side, compared, pruned. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { stringify } from 'yaml';
import {
  image,
  installByManifests,
  namespace,
  operatorNamespace,
  operatorReady,
} from '../install.ts';
import { type Kube, waitFor } from '../kube.ts';
import {
  coordinator,
  type Ending,
  removeSmall,
  type Scenario,
  smallCluster,
  smallName,
  type Stage,
} from './scenario.ts';

const root = join(import.meta.dirname, '..', '..', '..');
const parts = ['node', 'coordinator', 'etcd', 'operator'] as const;

/** An overlay as an operator of a company would have it: its own images over our manifests. */
async function builtByKustomize(kube: Kube): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-kustomize-'));
  const env = parts.map((part) => ({
    name: `TSDB_${part.toUpperCase()}_IMAGE`,
    value: image(part),
  }));
  const [newName, newTag] = image('operator').split(':');
  const kustomization = {
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    resources: [relative(folder, join(root, 'manifests'))],
    images: [{ name: 'tsdb-operator', newName, newTag }],
    patches: [
      {
        patch: stringify({
          apiVersion: 'apps/v1',
          kind: 'Deployment',
          metadata: { name: 'tsdb-operator', namespace: operatorNamespace },
          spec: { template: { spec: { containers: [{ name: 'operator', env }] } } },
        }),
      },
    ],
  };
  try {
    writeFileSync(join(folder, 'kustomization.yaml'), stringify(kustomization));
    return await kube.ok(['kustomize', folder]);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const asManager = (manager: string): string[] => [
  ...['--server-side', '--force-conflicts', `--field-manager=${manager}`],
];

const applied = (kube: Kube, manager: string, text: string, ...more: string[]): Promise<string> =>
  kube.ok(['apply', ...asManager(manager), ...more, '-f', '-'], text);

/** What a tool would report as drift. */
async function driftOf(kube: Kube, manager: string, text: string): Promise<string> {
  const { code, output } = await kube.kubectl(['diff', ...asManager(manager), '-f', '-'], text);
  assert.ok(code <= 1, output);
  return output;
}

async function gitops({ kube }: Stage): Promise<Ending> {
  const operator = await builtByKustomize(kube);
  await applied(kube, 'argocd-controller', operator);
  await operatorReady(kube);
  assert.equal(await driftOf(kube, 'argocd-controller', operator), '');

  const labels = { 'app.kubernetes.io/part-of': 'gitops' };
  const ofRepository = ({ metadata, ...object }: any): string =>
    stringify({ ...object, metadata: { ...metadata, namespace, labels } });
  const cluster = ofRepository(smallCluster());
  const claim = ofRepository({
    apiVersion: 'tsdb.io/v1alpha1',
    kind: 'TSDBNamespace',
    metadata: { name: 'of-git' },
    spec: { clusterRef: { name: smallName }, retentionTime: '12h', reclaimPolicy: 'Delete' },
  });
  const both = [claim, cluster].join('---\n');
  await applied(kube, 'kustomize-controller', both);
  for (const one of [`tsdbcluster/${smallName}`, 'tsdbnamespace/of-git']) {
    await waitFor(`kubectl wait ${one}`, 240_000, async () => {
      const args = ['wait', one, '-n', namespace, '--for=condition=Ready', '--timeout=20s'];
      const { code, output } = await kube.kubectl(args);
      return code === 0 ? null : output;
    });
  }
  assert.equal(await driftOf(kube, 'kustomize-controller', both), '', 'nothing drifts');

  // As the tools do with what the repository has no more.
  await kube.ok(['delete', 'tsdbnamespace', 'of-git', '-n', namespace, '--timeout=20s']);
  assert.equal(await kube.get('tsdbnamespace', 'of-git', namespace), null);
  await waitFor('the namespace that was pruned is gone', 60_000, async () => {
    const { registry } = await coordinator(kube, smallName, 'namespace');
    const left = Object.keys(registry.namespaces);
    return left.includes('of-git') ? left.join(', ') : null;
  });
  await removeSmall(kube);

  const sets = parts.flatMap((part) => [
    ...['--set', `images.${part}.repository=${image(part).split(':')[0]}`],
    ...['--set', `images.${part}.tag=${image(part).split(':')[1]}`],
  ]);
  const chart = [join(root, 'helm/tsdb'), '--namespace', operatorNamespace, ...sets];
  // Without a server helm goes by the version that it was built with.
  chart.push('--kube-version', kube.version);
  const rendered = await kube.helm(['template', 'tsdb', ...chart, '--include-crds', '--no-hooks']);
  await applied(kube, 'kubectl', rendered);
  await operatorReady(kube);
  assert.equal(await driftOf(kube, 'kubectl', rendered), '');
  await installByManifests(kube);
  return { isUnready: true };
}

export const repositories: readonly Scenario[] = [
  {
    name: 'gitops',
    what: 'kustomize, server-side apply and prune as Argo CD and Flux do it, helm template: nothing drifts',
    millisMax: 700_000,
    run: gitops,
  },
];
