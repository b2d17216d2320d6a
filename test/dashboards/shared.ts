/** What several dashboards have alike. */
import type { Panel, Variable } from './grafana.ts';

/**
 * Kubernetes' namespace and the cluster are labels that only the monitors of the chart set; job and instance every scraper sets.
 */
export function processVariables(metric: string): Variable[] {
  const inCluster = 'namespace=~"$namespace",tsdb_io_cluster=~"$cluster"';
  return [
    {
      name: 'namespace',
      label: 'Kubernetes namespace',
      of: metric,
      from: 'namespace',
      mayLack: true,
    },
    {
      ...{ name: 'cluster', label: 'Cluster', from: 'tsdb_io_cluster', mayLack: true },
      of: `${metric}{namespace=~"$namespace"}`,
    },
    { name: 'job', label: 'Job', of: `${metric}{${inCluster}}`, from: 'job' },
    {
      ...{ name: 'instance', label: 'Instance', from: 'instance' },
      of: `${metric}{${inCluster},job=~"$job"}`,
    },
  ];
}

export const processSelector: string =
  'namespace=~"$namespace",tsdb_io_cluster=~"$cluster",job=~"$job",instance=~"$instance"';

export const uptime: Panel = {
  title: 'Up since',
  as: 'figure',
  unit: 's',
  queries: [['', 'min(time() - process_start_time_seconds{@})']],
  shows: 'Time since the youngest of the processes started.',
  act: 'a process that starts again and again says why in the last lines of its log (`kubectl logs -p`): often memory, or a setting that it names.',
  bounds: { warn: 600, bad: 60, isFloor: true },
};

/** CPU, memory and main loop of a process. */
export const processPanels: readonly Panel[] = [
  {
    title: 'CPU',
    unit: 'short',
    queries: [['{{instance}}', 'sum by (instance) (rate(process_cpu_seconds_total{@}[@]))']],
    shows: 'Cores that each process uses: 1 is one core.',
    act: 'near the number of cores that it has, a process answers late. `/debug/pprof/profile` on 9004 of a storage node tells where the time goes; more instances share the work.',
  },
  {
    title: 'Memory of the process',
    unit: 'bytes',
    queries: [['{{instance}}', 'sum by (instance) (process_resident_memory_bytes{@})']],
    shows:
      'What the operating system gives it: rows, index and caches are outside of the heap of JavaScript.',
    act: 'it has to stay below the limit of its container, with a quarter to spare. Else lower the settings of memory (docs/CONFIGURATION.md) or raise the limit.',
  },
  {
    title: 'Main loop: lag, 99th percentile',
    unit: 's',
    queries: [['{{instance}}', 'max by (instance) (nodejs_eventloop_lag_p99_seconds{@})']],
    shows:
      'For how long the one thread that serves is held: everything that it does waits so long.',
    act: 'above 0.1 s all latencies grow. Look at CPU and garbage collection first, then take a CPU profile.',
    bounds: { warn: 0.1, bad: 0.5 },
  },
  {
    title: 'Garbage collection',
    unit: 'percentunit',
    queries: [['{{instance}}', 'sum by (instance) (rate(nodejs_gc_duration_seconds_sum{@}[@]))']],
    shows: 'Share of the time in which garbage is collected.',
    act: 'above a tenth the heap is too small for what goes on: fewer or smaller queries, or a larger heap (`--max-old-space-size`).',
    bounds: { warn: 0.1, bad: 0.25 },
  },
];
