/**
 * The operator, a cluster and the pods that write to it and check it, as the scenarios put them
 * there.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { condition, type Kube, waitFor } from './kube.ts';

const root = join(import.meta.dirname, '..', '..');
const tag = process.env['TSDB_IMAGE_TAG'] ?? 'test';
/** As the images of this test are called on its machines. */
export const image = (name: string): string => `localhost/tsdb-${name}:${tag}`;

export const operatorNamespace = 'tsdb-system';
export const namespace = 'default';
export const clusterName = 'metrics';

/**
 * manifests/crds.yaml (a part of operator.yaml once) and operator.yaml, this with images of this tag.
 * @param checkout a folder with the sources
 */
export async function installByManifests(
  kube: Kube,
  checkout: string = root,
  ofTag: string = tag,
): Promise<void> {
  const own = (name: string): string => `localhost/tsdb-${name}:${ofTag}`;
  const definitions = join(checkout, 'manifests/crds.yaml');
  if (existsSync(definitions)) {
    await kube.ok(['apply', '--server-side', '--force-conflicts', '-f', definitions]);
  }
  const text = readFileSync(join(checkout, 'manifests/operator.yaml'), 'utf8')
    .replace(/(?<=[ "])tsdb-(operator|node|coordinator|aggregator):[^"\s]+/g, (_, name: string) =>
      own(name),
    )
    .replace(/(?<=[ "])quay\.io\/coreos\/etcd:[^"\s]+/g, own('etcd'));
  await kube.ok(['apply', '--server-side', '--force-conflicts', '-f', '-'], text);
  await operatorReady(kube);
}

/** The definitions stay, and with them the clusters. */
export async function uninstallManifests(kube: Kube): Promise<void> {
  const file = join(root, 'manifests/operator.yaml');
  await kube.ok(['delete', '--wait=false', '--ignore-not-found', '-f', file]);
  await waitFor('operator gone', 60_000, async () =>
    (await kube.get('namespace', operatorNamespace, namespace)) === null ? null : 'its namespace',
  );
}

/** With every cluster: there must be none. */
export async function deleteDefinitions(kube: Kube): Promise<void> {
  const file = join(root, 'manifests/crds.yaml');
  await kube.ok(['delete', '--ignore-not-found', '--timeout=20s', '-f', file]);
}

/** With the images of this test. The chart's `cluster` makes the TSDBCluster in the release's namespace. */
export async function installByHelm(
  kube: Kube,
  release: string,
  values: readonly string[],
): Promise<void> {
  const images = ['operator', 'node', 'coordinator', 'aggregator', 'etcd'].flatMap((name) => [
    ...['--set', `images.${name}.repository=localhost/tsdb-${name}`],
    ...['--set', `images.${name}.tag=${tag}`],
  ]);
  const chart = join(root, 'helm/tsdb');
  await kube.helm(['install', release, chart, '--namespace', namespace, ...images, ...values]);
  await operatorReady(kube, namespace, release);
}

export const clusterOfRelease = (spec: object): string[] => [
  ...['--set', 'cluster.enabled=true', '--set', `cluster.name=${clusterName}`],
  ...['--set-json', `cluster.spec=${JSON.stringify(spec)}`],
];

/** The Kubernetes namespace that the operator was put in; null when there is none. */
export async function operatorHome(kube: Kube): Promise<string | null> {
  for (const home of [operatorNamespace, namespace]) {
    if ((await kube.get('deployment', 'tsdb-operator', home)) !== null) return home;
  }
  return null;
}

/** All of its pods are of the newest revision, and no other is left. */
export async function operatorReady(
  kube: Kube,
  inNamespace: string = operatorNamespace,
  release: string = 'tsdb',
): Promise<void> {
  await waitFor('operator ready', 120_000, async () => {
    const deployment = await kube.get('deployment', `${release}-operator`, inNamespace);
    const { generation = 0 } = deployment?.metadata ?? {};
    const { status = {}, spec } = deployment ?? { spec: { replicas: 1 } };
    if (status.observedGeneration !== generation) return 'an older generation';
    const { availableReplicas = 0, updatedReplicas = 0, replicas = 0 } = status;
    const counts = [availableReplicas, updatedReplicas, replicas];
    if (counts.some((count) => count !== spec.replicas)) {
      return `${availableReplicas} available, ${updatedReplicas} new, ${replicas} in all of ${spec.replicas}`;
    }
    const selector = `app.kubernetes.io/name=tsdb-operator,app.kubernetes.io/instance=${release}`;
    const pods = await kube.list('pods', inNamespace, selector);
    return pods.length === spec.replicas ? null : `${pods.length} pods of ${spec.replicas}`;
  });
}

/** The example, with shards and requests that fit a small machine. */
export function exampleCluster(): { metadata: { name: string }; spec: Record<string, any> } {
  const text = readFileSync(join(root, 'manifests/examples/three-zones.yaml'), 'utf8');
  const cluster = parse(text);
  cluster.spec.numberOfShards = 64;
  cluster.spec.deletionPolicy = { data: 'Retain', metadata: 'Delete' };
  return cluster;
}

export async function applyCluster(kube: Kube): Promise<void> {
  await kube.ok(['apply', '-n', namespace, '-f', '-'], stringify(exampleCluster()));
}

/** Ready at the newest generation, with this many nodes in each group. */
export async function clusterReady(
  kube: Kube,
  perGroup: number,
  millisMax: number,
  name: string = clusterName,
): Promise<void> {
  await waitFor(`${name} ready with ${perGroup} per group`, millisMax, async () => {
    const cluster = await kube.get('tsdbcluster', name, namespace);
    if (cluster === null) return 'no TSDBCluster';
    const { status, metadata, spec } = cluster;
    const ready = condition(cluster, 'Ready');
    if (ready?.status !== 'True') return `${ready?.reason}: ${ready?.message}`;
    if (status.observedGeneration !== metadata.generation) return 'an older generation';
    const shards = spec.numberOfShards * spec.replicationFactor;
    if (status.shards !== `${shards}/${shards}`) return `shards ${status.shards}`;
    const nodes = status.nodes.filter((node: any) => node.ready).length;
    const wanted = perGroup * spec.isolationGroups.length;
    if (nodes !== wanted) return `${nodes} of ${wanted} nodes`;
    // An operator that has just come says what the one before it saw.
    const pods = await kube.list('pods', namespace, `tsdb.io/cluster=${name}`);
    // Those of jobs end.
    const lasting = pods.filter(({ status }) => status.phase !== 'Succeeded');
    const unready = lasting.filter((pod) => condition(pod, 'Ready')?.status !== 'True');
    const names = unready.map(({ metadata }) => metadata.name).join(' ');
    return names === '' ? null : `pods not ready: ${names}`;
  });
}

/** The writer and the checker, with the node's image and the programs in a ConfigMap. */
export async function startLoad(kube: Kube): Promise<void> {
  const files = ['lanes.ts', 'writer.ts', 'checker.ts'];
  const data = Object.fromEntries(
    files.map((file) => [file, readFileSync(join(import.meta.dirname, 'load', file), 'utf8')]),
  );
  const coordinator = `http://${clusterName}-coordinator.${namespace}.svc:7201`;
  const pod = (name: string, args: readonly string[]) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, labels: { app: name } },
    spec: {
      automountServiceAccountToken: false,
      // Not on a machine that a scenario takes away.
      nodeSelector: { 'topology.kubernetes.io/zone': 'c' },
      terminationGracePeriodSeconds: 0,
      restartPolicy: 'Never',
      containers: [
        {
          name,
          image: image('node'),
          imagePullPolicy: 'Never',
          command: ['/usr/local/bin/node', `/load/${name}.ts`, ...args],
          readinessProbe: { tcpSocket: { port: 8000 }, periodSeconds: 1 },
          volumeMounts: [{ name: 'load', mountPath: '/load' }],
        },
      ],
      volumes: [{ name: 'load', configMap: { name: 'load' } }],
    },
  });
  const objects = [
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'load' }, data },
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'writer' },
      spec: { selector: { app: 'writer' }, ports: [{ port: 8000 }] },
    },
    pod('writer', [coordinator]),
    pod('checker', [coordinator, `http://writer.${namespace}.svc:8000`]),
  ];
  const text = objects.map((object) => stringify(object)).join('---\n');
  await kube.ok(['apply', '-n', namespace, '-f', '-'], text);
  await waitFor('first samples written and checked', 60_000, async () => {
    const { checks, lastProblem } = await ask(kube, 'checker', 'report');
    return checks >= 2 ? null : `${checks} checks; ${lastProblem}`;
  });
}

export async function ask(kube: Kube, pod: 'writer' | 'checker', path: string): Promise<any> {
  const url = `/api/v1/namespaces/${namespace}/pods/${pod}:8000/proxy/${path}`;
  return JSON.parse(await kube.ok(['get', '--raw', url]));
}

export async function stopLoad(kube: Kube): Promise<void> {
  const args = ['delete', '-n', namespace, 'pod/writer', 'pod/checker'];
  await kube.ok([
    ...args,
    'service/writer',
    'configmap/load',
    '--ignore-not-found',
    '--wait=false',
  ]);
  await waitFor('load pods gone', 30_000, async () => {
    const left = [
      await kube.get('pod', 'writer', namespace),
      await kube.get('pod', 'checker', namespace),
    ];
    return left.every((pod) => pod === null) ? null : 'pods';
  });
}
