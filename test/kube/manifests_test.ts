/** Chart, definitions and plain manifests say the same. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse, parseAllDocuments } from 'yaml';
import { toolOrSkip } from '../tools.ts';
import { binariesFolder, run, versionDefault } from './kube.ts';

const root = join(import.meta.dirname, '..', '..');
const chart = join(root, 'helm/tsdb');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

test('the chart carries the definitions of crds/ as they are', () => {
  for (const name of ['tsdbclusters', 'tsdbnamespaces']) {
    const copied = read(`helm/tsdb/crds/${name}.yaml`);
    assert.equal(copied, read(`crds/${name}.yaml`), `cp crds/${name}.yaml helm/tsdb/crds/`);
    assert.ok(read('manifests/crds.yaml').includes(`---\n${copied}`), 'render_manifests.sh');
  }
});

const promtool = toolOrSkip('promtool', 'the alert rules are not tested');
if (promtool !== null) {
  test('alerts are raised when they should, and not before', async () => {
    const { code, output } = await run(
      promtool,
      ['test', 'rules', join(root, 'test/kube/alerts.test.yaml')],
      {
        millisMax: 60_000,
      },
    );
    assert.equal(code, 0, output);
  });
}

process.env['PATH'] += `:${binariesFolder(versionDefault)}`;
const helm = toolOrSkip('helm', 'the chart is not rendered and not held against the manifests');

if (helm !== null) {
  const template = async (...args: string[]): Promise<{ code: number; output: string }> =>
    run(
      helm,
      ['template', 'tsdb', chart, '-n', 'tsdb-system', '--kube-version', '1.34.0', ...args],
      { millisMax: 60_000 },
    );
  const objectsOf = (text: string): any[] =>
    parseAllDocuments(text)
      .map((document) => document.toJS())
      .filter((object) => object !== null);

  test('manifests/operator.yaml is the rendered chart', async () => {
    const { output } = await template('--no-hooks');
    assert.ok(
      read('manifests/operator.yaml').endsWith(output),
      'bash test/kube/render_manifests.sh writes it anew',
    );
  });

  test('an operator of some namespaces has no rights on the whole cluster', async () => {
    const { output } = await template(
      ...['--set', 'operator.watchNamespaces={a,b}', '--set', 'crds.upgrade=false'],
    );
    const objects = objectsOf(output);
    assert.ok(objects.every(({ kind }) => !kind.startsWith('ClusterRole')));
    const homes = objects
      .filter(({ kind, metadata }) => kind === 'Role' && !metadata.name.endsWith('-lease'))
      .map(({ metadata }) => metadata.namespace);
    assert.deepEqual(homes, ['a', 'b']);
    const deployment = objects.find(({ kind }) => kind === 'Deployment');
    const watched = deployment.spec.template.spec.containers[0].env.find(
      ({ name }: { readonly name: string }) => name === 'WATCH_NAMESPACE',
    );
    assert.equal(watched.value, 'a,b');
  });

  test('with monitoring the rules of the chart are a PrometheusRule', async () => {
    const { output } = await template('--set', 'monitoring.enabled=true');
    const objects = objectsOf(output);
    const rule = objects.find(({ kind }) => kind === 'PrometheusRule');
    assert.deepEqual(rule.spec, parse(read('helm/tsdb/alerts/tsdb.yaml')));
    assert.deepEqual(
      objects.map(({ kind }) => kind).filter((kind) => kind.endsWith('Monitor')),
      ['PodMonitor', 'ServiceMonitor'],
    );
  });

  test('dashboards are ConfigMaps that Grafana finds, when they are asked for', async () => {
    const isDashboard = ({ kind, metadata }: any): boolean =>
      kind === 'ConfigMap' && 'grafana_dashboard' in metadata.labels;
    assert.ok(!objectsOf((await template()).output).some(isDashboard));
    const { output } = await template(
      ...['--set', 'dashboards.enabled=true', '--set', 'dashboards.folder=Our databases'],
    );
    const found = objectsOf(output).filter(isDashboard);
    const files = readdirSync(join(chart, 'dashboards'));
    assert.deepEqual(
      new Set(found.map(({ metadata }) => metadata.name)),
      new Set(files.map((file) => `tsdb-operator-dashboard-${file.replace('.json', '')}`)),
    );
    for (const { metadata, data } of found) {
      assert.equal(metadata.labels.grafana_dashboard, '1');
      assert.equal(metadata.annotations.grafana_folder, 'Our databases');
      const [[name, text]] = Object.entries(data) as [[string, string]];
      const file = read(`helm/tsdb/dashboards/${name.replace('tsdb-', '')}`);
      assert.equal(text, file);
      // A ConfigMap holds a mebibyte, and a client-side apply a quarter of it.
      assert.ok(text.length < 200_000, name);
    }
    const labelled = await template(
      ...['--set', 'dashboards.enabled=true', '--set-string', 'dashboards.labels.shown=yes'],
    );
    const all = objectsOf(labelled.output).filter(isDashboard);
    assert.ok(all.every(({ metadata }) => metadata.labels.shown === 'yes'));
    assert.ok(all.every(({ metadata }) => metadata.annotations === undefined));
  });

  test('what the values misspell or misuse is refused by its name', async () => {
    for (const [args, expected] of [
      [['--set', 'operator.replica=3'], /replica/],
      [['--set', 'operator.replicas=0'], /replicas/],
      [['--set', 'imagePullPolicy=Sometimes'], /imagePullPolicy/],
      [['--set', 'images.node.version=1'], /version/],
      [['--set', 'cluster.enabled=maybe'], /enabled/],
      [['--set', 'dashboards.label.a=b'], /label/],
    ] as const) {
      const { code, output } = await template(...args);
      assert.notEqual(code, 0, args.join(' '));
      assert.match(output, expected);
    }
  });

  test('a cluster of the release is its values, and stays when the release goes', async () => {
    const { output } = await template(
      ...['--set', 'cluster.enabled=true', '--set', 'cluster.name=m'],
      ...['--set', 'cluster.spec.numberOfShards=64'],
    );
    const cluster = objectsOf(output).find(({ kind }) => kind === 'TSDBCluster');
    assert.equal(cluster.metadata.name, 'm');
    assert.equal(cluster.metadata.annotations['helm.sh/resource-policy'], 'keep');
    assert.equal(cluster.spec.numberOfShards, 64);
  });
}
