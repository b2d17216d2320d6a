/** Objects, volumes, Secrets and rights of others are theirs. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { podTemplateProblems } from '../overlay/pod_rules.ts';
import { overlay } from '../resource/merge.ts';
import { specOf, World, settledWorld } from '../world_testing.ts';
import { type Json, passes, writesLike, claim, snapshotsOn } from './mishaps_testing.ts';

/** A StatefulSet that is not ours, with its pods and volumes. */
function addForeignSet(world: World, name: string, replicas: number, owner: Json[] = []): string[] {
  const labels = { app: 'theirs' };
  world.kube.store({
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name, namespace: 'default', labels, ownerReferences: owner },
    spec: {
      replicas,
      template: { metadata: { labels }, spec: { containers: [{ name: 'x', image: 'x' }] } },
      volumeClaimTemplates: [
        { metadata: { labels }, spec: { resources: { requests: { storage: '1Gi' } } } },
      ],
    },
  });
  return Array.from({ length: replicas }, (_, at) => `data-${name}-${at}`);
}

// Somebody's claim data-c-a-1 is left of a StatefulSet `c-a` or of a chart (data-<release>-x-1). The
// author of a TSDBCluster c with group a scales to 2: Kubernetes mounts it into a pod whose image the
// author chose, and scaling back deletes it. Sets, Services... are looked at for ForeignObject; claims not.
test('a volume of others is neither mounted nor deleted because of its name', async () => {
  const world = await settledWorld();
  world.kube.store({
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: 'data-c-a-1', namespace: 'default', labels: { app: 'postgres' } },
    spec: { resources: { requests: { storage: '1Ti' } } },
    status: { phase: 'Bound' },
  });
  const { uid } = claim(world, 'data-c-a-1').metadata;
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 2));
  await passes(world, 30);
  const isMounted = world.kube.find('Pod', 'c-a-1') !== undefined;
  world.changeSpec((spec) => (spec.nodes.replicasPerGroup = 1));
  await passes(world, 30);
  assert.equal(claim(world, 'data-c-a-1')?.metadata.uid, uid, 'it is there');
  assert.equal(isMounted, false);
});

// A claim c-etcd-snapshots, or data-c-etcd-0 (as Bitnami's etcd chart names it), is somebody else's. It is
// ForeignObject, but the CronJob and the restore Job that mount it are made all the same, with the
// image that the author chose (etcd.image); the restore Job begins by removing the folder `data` of it.
test('no job mounts a claim that is not ours', async () => {
  const world = new World();
  for (const name of ['c-etcd-snapshots', 'data-c-etcd-0']) {
    world.kube.store({
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name, namespace: 'default', labels: { app: 'other' } },
      spec: { resources: { requests: { storage: '8Gi' } } },
      status: { phase: 'Bound' },
    });
  }
  world.addCluster(specOf({ etcd: snapshotsOn }));
  world.annotate('tsdb.io/restore-etcd', 'latest');
  await passes(world, 3);
  assert.deepEqual(
    writesLike(world, /^APPLY (CronJob|Job)\//),
    [],
    'jobs that mount foreign claims',
  );
});

// The operator gives no right. An author names any TLS Secret of the namespace as
// etcd.external.tlsSecret (those of issued certificates have just these three keys, a CA's too) and reads tls.key from
// a container of their own. docs: "must not gain ... Secrets ... of others"; `secrets` is not given.
test('a private key of others is not read by a container of the author', async () => {
  const world = new World();
  const peek = {
    name: 'peek',
    image: 'mine',
    volumeMounts: [{ name: 'etcd-tls', mountPath: '/theirs' }],
  };
  world.addCluster(
    specOf({
      etcd: { external: { endpoints: ['https://etcd:2379'], tlsSecret: 'company-ca' } },
      nodes: { replicasPerGroup: 1, podTemplate: { spec: { containers: [peek] } } },
    }),
  );
  await passes(world, 5);
  const set = JSON.stringify(world.kube.find('StatefulSet', 'c-a') ?? {});
  assert.ok(!/company-ca/.test(set) || !/theirs/.test(set), 'the Secret is mounted into both');
});

// A volume is mounted twice into the node's container, at two paths (subPath): Kubernetes knows mounts
// by mountPath. Lists are merged by name, so of the two the last is left, and nothing says so.
test('a volume that is mounted at two paths is mounted at two', () => {
  const base = [{ name: 'data', mountPath: '/var/lib/tsdb' }];
  const over = [
    { name: 'certs', mountPath: '/a', subPath: 'a' },
    { name: 'certs', mountPath: '/b', subPath: 'b' },
  ];
  assert.deepEqual(
    podTemplateProblems(
      { spec: { containers: [{ name: 'node', volumeMounts: over }] } },
      'node',
      new Set(),
    ),
    [],
  );
  assert.deepEqual(overlay(base, over), [...base, ...over]);
});

// No right is given. In many clusters labels and annotations of pods are identities: kube2iam and Multus by annotation, Azure by label; and a label app=payments
// makes the author's container an endpoint of the Service payments, whose requests it then reads.
test('labels and annotations that are rights are not free', () => {
  const metadata = {
    labels: { app: 'payments', 'azure.workload.identity/use': 'true', aadpodidbinding: 'admin' },
    annotations: {
      'iam.amazonaws.com/role': 'admin',
      'k8s.v1.cni.cncf.io/networks': 'kube-system/host',
    },
  };
  const keys = [...Object.keys(metadata.labels), ...Object.keys(metadata.annotations)];
  const problems = podTemplateProblems({ metadata }, 'node', new Set());
  assert.equal(problems.length, keys.length);
  for (const [at, key] of keys.entries())
    assert.match(problems[at]!, new RegExp(`: ${key} needs the right metadata`));
  assert.deepEqual(podTemplateProblems({ metadata }, 'node', new Set(['metadata'])), []);
});

// A StatefulSet c-d of three pods with their data is somebody else's: an application, or another
// TSDBCluster (cluster c group b-x, cluster c-b group x: both are c-b-x). Cluster c is given a group d.
// It is ForeignObject and not written over; but it is *scaled* to c's size, with its volumes deleted.
for (const [whose, owner] of [
  ['an application', []],
  [
    'another TSDBCluster',
    [
      {
        apiVersion: 'tsdb.io/v1alpha1',
        kind: 'TSDBCluster',
        name: 'c-x',
        uid: 'x',
        controller: true,
      },
    ],
  ],
] as const) {
  test(`A22: a set of ${whose} under a name of ours is not scaled, nor its volumes deleted`, async () => {
    const world = await settledWorld();
    const volumes = addForeignSet(world, 'c-d', 3, owner as Json);
    await world.advance();
    assert.ok(volumes.every((name) => claim(world, name) !== undefined));
    world.changeSpec((spec) => spec.isolationGroups.push({ name: 'd' }));
    await passes(world, 20);
    assert.deepEqual(
      volumes.filter((name) => claim(world, name) === undefined),
      [],
      'volumes of others that have gone',
    );
    assert.equal(world.kube.find('StatefulSet', 'c-d').spec.replicas, 3);
  });
}

// A StatefulSet c-etcd of five members is somebody else's (Bitnami's chart names it so for a release
// c). A TSDBCluster c is made, perhaps with restore-etcd. ForeignObject; and their etcd is scaled to three
// members, or to none with its volumes deleted.
for (const wish of ['', 'latest']) {
  test(`A23: an etcd of others is not scaled${wish === '' ? '' : ' when a restore is asked for'}`, async () => {
    const world = new World();
    const volumes = addForeignSet(world, 'c-etcd', 5);
    await world.advance();
    world.addCluster(specOf({ etcd: snapshotsOn }));
    if (wish !== '') world.annotate('tsdb.io/restore-etcd', wish);
    await passes(world, 10);
    assert.equal(world.kube.find('StatefulSet', 'c-etcd').spec.replicas, 5);
    assert.equal(volumes.filter((name) => claim(world, name) !== undefined).length, 5);
  });
}

// Their set under a name of ours has no volumes at all.
test('a set of others without volumes is a foreign object like any other', async () => {
  const world = new World();
  addForeignSet(world, 'c-a', 0);
  const set = structuredClone(world.kube.find('StatefulSet', 'c-a')) as Json;
  delete set.spec.volumeClaimTemplates;
  world.kube.store(set);
  world.addCluster(specOf());
  for (let pass = 0; pass < 3; pass++) await world.reconcile();
  assert.equal(world.condition('Stalled').reason, 'ForeignObject');
  assert.deepEqual(writesLike(world, /StatefulSet\/c-a$/), []);
});
