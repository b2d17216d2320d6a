/** The API server goes, forgets, refuses, or has other clients that want something else. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { clusterName, clusterReady, namespace } from '../install.ts';
import { type Kube, waitFor } from '../kube.ts';
import { restartApiServer } from '../machines.ts';
import { openApiProxy, operatorGoes } from '../operators.ts';
import {
  acts,
  type Ending,
  groups,
  ready,
  type Scenario,
  scaleTo,
  type Stage,
} from './scenario.ts';

const apiAwayMillis = 60_000;
const editMillis = 30_000;
/** A pass writes a status and an object or two; another client's edits come once a second. */
const writesOfConflictsMax = 240;
const added = (ordinal: number): string[] =>
  groups.map((group) => `placement-add ${clusterName}-${group}-${ordinal}`);

async function serverRestarted(stage: Stage): Promise<Ending> {
  const { kube, journal } = stage;
  await ready(stage);
  await scaleTo(kube, 2);
  await acts(stage, /^placement-add/);
  await restartApiServer(kube, apiAwayMillis);
  await clusterReady(kube, 2, 300_000);
  const crashed = journal.saying(/operator failed|BrokenInvariant|unhandled/i, stage.sinceMillis);
  assert.deepEqual(crashed, [], 'no operator crashes for it');
  return {
    calls: added(1),
    withoutChecksMillisMax: apiAwayMillis + 30_000,
    isServerNew: true,
  };
}

const gone =
  '{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n';
const watchOf = (resource: string): RegExp => new RegExp(`^GET /[^?]*/${resource}\\?watch=true`);

async function watchesBroken(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  const proxy = await openApiProxy();
  try {
    await operatorGoes(kube, { api: proxy });
    stage.sinceMillis = Date.now();
    const budget = `${clusterName}-nodes`;
    const comesBack = async (kind: string, name: string) => {
      const { metadata } = await kube.get(kind, name, namespace);
      await kube.ok(['delete', kind, name, '-n', namespace, '--wait=false']);
      proxy.cut();
      await waitFor(`${kind} ${name} is made again`, 60_000, async () => {
        const now = await kube.get(kind, name, namespace);
        return now !== null && now.metadata.uid !== metadata.uid ? null : 'it is gone';
      });
    };
    const expired = proxy.on({
      request: watchOf('poddisruptionbudgets'),
      effect: { kind: 'answer', status: 200, body: gone },
      times: 2,
    });
    await comesBack('pdb', budget);
    const failed = proxy.on({
      request: watchOf('services'),
      effect: { kind: 'answer', status: 500, body: '{}' },
      times: 2,
    });
    await comesBack('service', `${clusterName}-coordinator`);
    // The one that was open may have told of the deletion before it was cut.
    await waitFor('both watches are broken', 60_000, async () => {
      return expired() > 0 && failed() > 0 ? null : 'they are not asked for yet';
    });
    const busy = proxy.on({
      request: /^PATCH .*\/poddisruptionbudgets/,
      effect: { kind: 'answer', status: 429, headers: { 'retry-after': '5' } },
      times: 1,
    });
    const lost = proxy.on({
      request: /^PATCH .*\/poddisruptionbudgets/,
      effect: { kind: 'reply lost' },
      times: 1,
    });
    await comesBack('pdb', budget);
    await clusterReady(kube, 1, 60_000);
    await waitFor('both have happened', 60_000, async () =>
      busy() + lost() === 2 ? null : `${busy()} and ${lost()}`,
    );
  } finally {
    await operatorGoes(kube, {});
    await proxy.close();
  }
  return { calls: [], withoutChecksMillisMax: 60_000 };
}

/** Calls that another client makes once a second, for a while. */
async function editing(edits: readonly (() => Promise<unknown>)[]): Promise<void> {
  const endMillis = Date.now() + editMillis;
  while (Date.now() < endMillis) {
    await Promise.all(edits.map((edit) => edit()));
    await delay(1_000);
  }
}

async function conflicts(stage: Stage): Promise<Ending> {
  const { kube, journal } = stage;
  await ready(stage);
  const set = `${clusterName}-zone-a`;
  let count = 0;
  const patch = (kind: string, name: string, body: object, ...flags: string[]) =>
    kube.kubectl([
      ...['patch', kind, name, '-n', namespace, '--type=merge', ...flags],
      ...['-p', JSON.stringify(body)],
    ]);
  const scaling = scaleTo(kube, 2);
  await editing([
    () =>
      patch('tsdbcluster', clusterName, { metadata: { annotations: { edits: String(++count) } } }),
    () => patch('statefulset', set, { metadata: { labels: { edits: String(count) } } }),
    () => patch('statefulset', set, { spec: { minReadySeconds: count % 2 } }),
    () =>
      patch(
        'tsdbcluster',
        clusterName,
        { status: { phase: `edit ${count}` } },
        '--subresource=status',
      ),
  ]);
  await scaling;
  await clusterReady(kube, 2, 240_000);
  // The last edit may have been a moment ago.
  await waitFor('what the operator says is said again', 30_000, async () => {
    const { status } = await kube.get('tsdbcluster', clusterName, namespace);
    return /edit/.test(status.phase) ? status.phase : null;
  });
  const { metadata } = await kube.get('tsdbcluster', clusterName, namespace);
  assert.equal(metadata.annotations.edits, String(count), 'what a person writes stays');
  const live = await kube.get('statefulset', set, namespace);
  assert.equal(live.metadata.labels.edits, String(count), 'a label of another stays');
  const writes = journal.writesSince(stage.sinceMillis).length;
  assert.ok(writes < writesOfConflictsMax, `no hot loop: ${writes} writes`);
  return { calls: added(1) };
}

async function childrenEdited(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage, 2);
  const set = `${clusterName}-zone-b`;
  const before = await kube.get('tsdbcluster', clusterName, namespace);
  const patch = (kind: string, name: string, spec: object) =>
    kube.ok([
      ...['patch', kind, name, '-n', namespace, '--type=merge'],
      ...['-p', JSON.stringify({ spec })],
    ]);
  await patch('service', `${clusterName}-coordinator`, {
    ports: [{ name: 'http', port: 7299, targetPort: 7299 }],
  });
  await kube.ok(['delete', 'pdb', `${clusterName}-nodes`, '-n', namespace]);
  await patch('statefulset', set, { replicas: 1 });
  await waitFor('service, budget and set are as before', 120_000, async () => {
    const service = await kube.get('service', `${clusterName}-coordinator`, namespace);
    const ports = service.spec.ports.map(({ port }: any) => port).join(' ');
    const budget = await kube.get('pdb', `${clusterName}-nodes`, namespace);
    const { replicas } = (await kube.get('statefulset', set, namespace)).spec;
    return /\b7201\b/.test(ports) && !/7299/.test(ports) && budget !== null && replicas === 2
      ? null
      : `ports ${ports}, budget ${budget !== null}, ${replicas} replicas`;
  });
  await clusterReady(kube, 2, 180_000);
  const after = await kube.get('tsdbcluster', clusterName, namespace);
  assert.equal(after.metadata.generation, before.metadata.generation);
  return { calls: [] };
}

/** Writes of the operator as another sees them: which, of which object. */
export async function versionsOf(kube: Kube): Promise<Record<string, string>> {
  const kinds = 'statefulsets,deployments,services,configmaps,pdb,networkpolicies,tsdbclusters';
  const objects = JSON.parse(await kube.ok(['get', kinds, '-n', namespace, '-o', 'json'])).items;
  return Object.fromEntries(
    objects.map(({ kind, metadata }: any) => [
      `${kind}/${metadata.name}`,
      metadata.resourceVersion,
    ]),
  );
}

export const apiFaults: readonly Scenario[] = [
  {
    name: '24-api-server-away',
    what: 'the API server is away for a minute while nodes are added, and comes back as a new process',
    millisMax: 700_000,
    run: serverRestarted,
  },
  {
    name: '25-watches-broken',
    what: 'watches that expire, fail and break; an object that goes meanwhile is made again; 429, lost answers',
    millisMax: 500_000,
    run: watchesBroken,
  },
  {
    name: '26-conflicts',
    what: 'another client edits resource, sets and status all the time while the cluster grows',
    millisMax: 600_000,
    run: conflicts,
  },
  {
    name: '27-children-edited',
    what: 'ports, budgets and replicas that somebody changes are as before; no data go with them',
    millisMax: 500_000,
    run: childrenEdited,
  },
];
