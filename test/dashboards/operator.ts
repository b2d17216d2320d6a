/** The operator of Kubernetes, and what it tells of each cluster. */
import type { Dashboard } from './grafana.ts';
import { quantile } from './requests.ts';
import { processPanels } from './shared.ts';

/** Of metrics that tell of a cluster; `@` is the operator's own process. */
const own = 'namespace=~"$namespace",cluster=~"$cluster"';
const ofCluster = (metric: string, more = ''): string =>
  `tsdb_operator_cluster_${metric}{${own}${more}}`;
const condition = (type: string): string =>
  `max by (namespace, cluster) (${ofCluster('condition', `,condition="${type}"`)})`;

export const operator: Dashboard = {
  name: 'operator',
  title: 'tsdb: operator of Kubernetes',
  description:
    'Conditions of every TSDBCluster as the last pass saw it, and whether the operator does its work. docs/OPERATOR.md has reasons and what to do.',
  selector: 'job=~"$job"',
  variables: [
    {
      ...{ name: 'namespace', label: 'Kubernetes namespace', from: 'namespace', mayLack: true },
      of: 'tsdb_operator_cluster_condition',
    },
    {
      ...{ name: 'cluster', label: 'Cluster', from: 'cluster', mayLack: true },
      of: 'tsdb_operator_cluster_condition{namespace=~"$namespace"}',
    },
    { name: 'job', label: 'Job', of: 'tsdb_operator_leader', from: 'job' },
  ],
  rows: [
    {
      title: 'Clusters',
      isOpen: true,
      panels: [
        {
          title: 'Unavailable',
          as: 'figure',
          unit: 'none',
          queries: [['', `count(${condition('Available')} == 0) or vector(0)`]],
          shows: 'Clusters of which some shard has no majority of replicas on nodes that serve.',
          act: '`kubectl describe tsdbcluster` says which nodes are missing.',
          bounds: { bad: 1 },
        },
        {
          title: 'Stalled',
          as: 'figure',
          unit: 'none',
          queries: [['', `count(${condition('Stalled')} == 1) or vector(0)`]],
          shows: 'Clusters of which a person must change something.',
          act: 'its condition Stalled says what, docs/OPERATOR.md what to do about each reason.',
          bounds: { bad: 1 },
        },
        {
          title: 'Not ready',
          as: 'figure',
          unit: 'none',
          queries: [['', `count(${condition('Ready')} == 0) or vector(0)`]],
          shows: 'Clusters that are not as their resources say, or on the way there.',
          act: 'give it half an hour; then the condition Ready says what is waited for.',
          bounds: { warn: 1, bad: 3 },
        },
        {
          title: 'Await approval',
          as: 'figure',
          unit: 'none',
          queries: [['', `count(${condition('ApprovalRequired')} == 1) or vector(0)`]],
          shows: 'Clusters with a change that waits for `tsdb.io/approve`.',
          act: 'read `status.plan`, and approve it or take the change back.',
          bounds: { warn: 1, bad: 100 },
        },
        {
          title: 'Leads',
          as: 'figure',
          unit: 'none',
          queries: [['', 'sum(tsdb_operator_leader{@})']],
          shows: 'How many processes of operators hold their lease: one of each operator.',
          act: 'none: nothing is healed, scaled or rolled out; the data path goes on. Look at pods and log of the operator.',
          bounds: { bad: 1, isFloor: true },
        },
        {
          title: 'Oldest pass',
          as: 'figure',
          unit: 's',
          queries: [
            [
              '',
              `max(time() - max by (namespace, cluster) (${ofCluster('pass_timestamp_seconds')}))`,
            ],
          ],
          shows: 'For how long the operator has not looked at some cluster.',
          act: 'its log says why; for one cluster alone see the annotation `tsdb.io/managed-by`.',
          bounds: { warn: 300, bad: 900 },
        },
        {
          title: 'Available',
          as: 'states',
          unit: 'none',
          queries: [['{{namespace}}/{{cluster}}', condition('Available')]],
          shows: 'Whether the data path of each cluster serves.',
          act: 'red while it serves nobody: `kubectl describe tsdbcluster`.',
          bounds: { bad: 1, isFloor: true },
          words: [
            [0, 'no', 'red'],
            [1, 'yes', 'green'],
          ],
        },
        {
          title: 'Conditions that are true',
          as: 'states',
          unit: 'none',
          queries: [
            [
              '{{namespace}}/{{cluster}} {{condition}}',
              `max by (namespace, cluster, condition) (${ofCluster('condition')})`,
            ],
          ],
          shows:
            'All conditions of each cluster. Reconciling, Stalled, Paused and ApprovalRequired are not true in quiet times; the others are.',
          act: 'events of the TSDBCluster tell each change under its reason.',
          words: [
            [0, 'false', 'dark-blue'],
            [1, 'true', 'light-blue'],
          ],
        },
      ],
    },
    {
      title: 'Shards, pods, snapshots',
      isOpen: true,
      panels: [
        {
          title: 'Shards',
          unit: 'none',
          queries: [
            [
              '{{state}} {{namespace}}/{{cluster}}',
              `max by (namespace, cluster, state) (${ofCluster('shards')})`,
            ],
          ],
          shows: 'Copies of shards in the placement, by state.',
          act: 'initializing that does not fall: the dashboard of the nodes, and their logs.',
        },
        {
          title: 'Pods that are not ready',
          unit: 'none',
          queries: [
            [
              '{{component}} {{namespace}}/{{cluster}}',
              `max by (namespace, cluster, component) (${ofCluster('pods', ',ready="false"')})`,
            ],
          ],
          shows: 'By component.',
          act: '`kubectl describe pod`: most often one that cannot be placed, or whose image cannot be pulled.',
          bounds: { bad: 1 },
        },
        {
          title: 'Pods that are ready',
          unit: 'none',
          queries: [
            [
              '{{component}} {{namespace}}/{{cluster}}',
              `max by (namespace, cluster, component) (${ofCluster('pods', ',ready="true"')})`,
            ],
          ],
          shows: 'By component.',
          act: 'less than the resource asks for: see beside.',
        },
        {
          title: 'Age of the last snapshot of etcd',
          unit: 's',
          queries: [
            [
              '{{namespace}}/{{cluster}}',
              `time() - max by (namespace, cluster) (${ofCluster('etcd_snapshot_timestamp_seconds')})`,
            ],
          ],
          shows: 'Of clusters with `etcd.snapshots`.',
          act: 'older than its schedule: `kubectl get jobs,pods -l tsdb.io/component=etcd-snapshots`, and their logs.',
          bounds: { warn: 7200, bad: 93600 },
        },
        {
          title: 'Age of the last pass',
          unit: 's',
          queries: [
            [
              '{{namespace}}/{{cluster}}',
              `time() - max by (namespace, cluster) (${ofCluster('pass_timestamp_seconds')})`,
            ],
          ],
          shows: 'When the operator looked at each cluster last.',
          act: 'above a quarter of an hour: its log.',
          bounds: { warn: 300, bad: 900 },
        },
      ],
    },
    {
      title: 'The operator',
      isOpen: true,
      panels: [
        {
          title: 'Passes',
          unit: 'ops',
          queries: [['{{result}}', 'sum by (result) (rate(tsdb_operator_reconcile_total{@}[@]))']],
          shows: 'Passes over clusters, by result.',
          act: 'errors: the log says what; after each it waits longer.',
        },
        {
          title: 'Time of a pass',
          unit: 's',
          queries: [
            ['median', quantile(0.5, 'tsdb_operator_reconcile_seconds')],
            ['99th percentile', quantile(0.99, 'tsdb_operator_reconcile_seconds')],
          ],
          shows: 'Of one cluster.',
          act: 'the API server or a coordinator answers late; see "Requests to Kubernetes".',
          bounds: { warn: 10, bad: 30 },
        },
        {
          title: 'Clusters waiting or in work',
          unit: 'none',
          queries: [['{{instance}}', 'max by (instance) (tsdb_operator_queue_depth{@})']],
          shows: 'A few are usual.',
          act: 'when it grows, passes take too long.',
        },
        {
          title: 'Actions that failed',
          unit: 'none',
          queries: [
            ['{{action}}', 'sum by (action) (increase(tsdb_operator_action_failures_total{@}[@]))'],
          ],
          shows:
            'They are tried again. `namespace-ready` waits for nodes, and evictions for budgets.',
          act: '`kubectl get events -A --field-selector reason=ActionFailed`. Rights of an older release: apply its manifests.',
        },
        {
          title: 'Requests to Kubernetes',
          unit: 'reqps',
          queries: [
            [
              '{{method}} {{code}}',
              'sum by (method, code) (rate(tsdb_operator_kubernetes_requests_total{@}[@]))',
            ],
          ],
          shows: 'By method and code.',
          act: '403: a right is missing. 429 and 5xx: the API server is busy or away.',
        },
        {
          title: 'Who leads',
          unit: 'none',
          queries: [['{{pod}} {{instance}}', 'max by (pod, instance) (tsdb_operator_leader{@})']],
          shows: '1 for the process that holds the lease.',
          act: 'when it changes again and again: does the process restart, is the API server slow?',
        },
        ...processPanels,
      ],
    },
  ],
};
