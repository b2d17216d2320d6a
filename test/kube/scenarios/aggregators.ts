/** Aggregators: they come, die, become fewer and go, and no window of a rollup is missing or wrong. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { stringify } from 'yaml';
import { clusterName, clusterReady, namespace } from '../install.ts';
import { condition, type Kube, waitFor } from '../kube.ts';
import { metric } from '../load/lanes.ts';
import {
  deletePod,
  type Ending,
  patchCluster,
  podUids,
  ready,
  type Scenario,
  type Stage,
} from './scenario.ts';

const minuteMillis = 60_000;
const rollup = 'rows_a_minute';
const policy = { resolution: '1m', retention: '24h' };
const rules = {
  rollupRules: [
    {
      name: rollup,
      filter: `__name__:${metric}`,
      transforms: [{ rollup: { metricName: rollup, groupBy: [], aggregations: ['Count'] } }],
      storagePolicies: [policy],
    },
  ],
};

async function call(kube: Kube, path: string, method = 'GET', body?: object): Promise<any> {
  const { clusterIP } = (await kube.get('service', `${clusterName}-coordinator`, namespace)).spec;
  const response = await fetch(`http://${clusterIP}:7201${path}`, {
    method,
    headers: { 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(20_000),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text.slice(0, 500)}`);
  return JSON.parse(text);
}

/** Null when there is no such row. */
async function valueAt(kube: Kube, query: string, millis: number): Promise<string | null> {
  const { data } = await call(
    kube,
    `/api/v1/query?query=${encodeURIComponent(query)}&time=${millis / 1000}`,
  );
  return data.result[0]?.value[1] ?? null;
}

const placed = async (kube: Kube): Promise<string[]> => {
  const { placement } = await call(kube, '/api/v1/services/m3aggregator/placement');
  return Object.keys(placement.instances).sort();
};

const podsAre = (kube: Kube, names: readonly string[]): Promise<unknown> =>
  waitFor(`aggregators are [${names.join(' ')}]`, minuteMillis, async () => {
    const found = Object.keys(await podUids(kube, 'aggregator')).sort();
    return String(found) === String(names) ? null : found.join(' ');
  });

/** Waits until windows are made up to now, and holds each of them against the rows that it is of. */
async function check(kube: Kube, fromMillis: number): Promise<number> {
  const lastMillis = Math.floor(Date.now() / minuteMillis) * minuteMillis;
  await waitFor('the last window is made', 5 * minuteMillis, async () => {
    const value = await valueAt(
      kube,
      `${rollup} and timestamp(${rollup}) >= ${lastMillis / 1000}`,
      lastMillis,
    );
    return value === null ? 'it is not there' : null;
  });
  for (let end = fromMillis + minuteMillis; end <= lastMillis; end += minuteMillis) {
    const made = await valueAt(kube, `${rollup} and timestamp(${rollup}) == ${end / 1000}`, end);
    const rows = await valueAt(kube, `sum(count_over_time(${metric}[1m]))`, end);
    assert.equal(made, rows, `window up to ${new Date(end).toISOString()}`);
  }
  return lastMillis;
}

async function comeAndGo(stage: Stage): Promise<Ending> {
  const { kube } = stage;
  await ready(stage);
  await kube.ok(
    ['apply', '-n', namespace, '-f', '-'],
    stringify({
      apiVersion: 'tsdb.io/v1alpha1',
      kind: 'TSDBNamespace',
      metadata: { name: 'minutes' },
      spec: {
        clusterRef: { name: clusterName },
        resolution: policy.resolution,
        retentionTime: policy.retention,
        reclaimPolicy: 'Delete',
      },
    }),
  );
  await waitFor('the namespace of minutes is ready', 90_000, async () => {
    const one = condition(await kube.get('tsdbnamespace', 'minutes', namespace), 'Ready');
    return one?.status === 'True' ? null : `${one?.reason}: ${one?.message}`;
  });
  await patchCluster(kube, { aggregator: { pairs: 2 } });
  await clusterReady(kube, 1, 180_000);
  const names = [0, 1, 2, 3].map((at) => `${clusterName}-aggregators-${at}`);
  assert.deepEqual(await placed(kube), names);
  const { cutoverMillis } = await call(kube, '/r2/v1/namespaces/default/ruleset', 'PUT', rules);
  const fromMillis = Math.ceil(cutoverMillis / minuteMillis) * minuteMillis;
  await delay(fromMillis + minuteMillis - Date.now());
  await check(kube, fromMillis);

  await deletePod(kube, names[0]!);
  await check(kube, fromMillis);
  for (const name of names.slice(2)) await deletePod(kube, name);
  await check(kube, fromMillis);
  await patchCluster(kube, { aggregator: { pairs: 1 } });
  await clusterReady(kube, 1, 180_000);
  assert.deepEqual(await placed(kube), names.slice(0, 2));
  await podsAre(kube, names.slice(0, 2));
  await check(kube, fromMillis);
  await patchCluster(kube, { aggregator: null });
  await clusterReady(kube, 1, 180_000);
  await podsAre(kube, []);
  await check(kube, fromMillis);
  await call(kube, '/r2/v1/namespaces/default', 'DELETE');
  await kube.ok(['delete', 'tsdbnamespace', 'minutes', '-n', namespace, '--timeout=20s']);
  return { withoutChecksMillisMax: 15_000 };
}

export const aggregators: readonly Scenario[] = [
  {
    name: '43-aggregators',
    what: 'aggregators come, die, become fewer and go: each window of a rollup is of all rows',
    // Windows are of minutes, and rules hold some minutes later.
    millisMax: 1_800_000,
    run: comeAndGo,
  },
];
