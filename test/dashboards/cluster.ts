/** What an operator on call looks at first: is everything answered, are replicas whole, is anything running out? */
import type { Dashboard } from './grafana.ts';
import { answeredShare, failedStatus, quantile, readPaths, writePaths } from './requests.ts';
import { processVariables } from './shared.ts';

const seconds = 'tsdb_coordinator_request_seconds';
const anyProcess = '{__name__=~"tsdb_node_series|tsdb_coordinator_front_series"';

export const cluster: Dashboard = {
  name: 'cluster',
  title: 'tsdb: cluster',
  description:
    'What to look at first: are writes and reads answered, are replicas whole, is anything late, short or out of step?',
  selector: 'namespace=~"$namespace",tsdb_io_cluster=~"$cluster",job=~"$job"',
  variables: processVariables('tsdb_node_series').flatMap((variable) => {
    if (variable.name === 'instance') return [];
    // Coordinators and nodes may be jobs of their own.
    return [
      variable.name === 'job'
        ? { ...variable, of: `${anyProcess},namespace=~"$namespace",tsdb_io_cluster=~"$cluster"}` }
        : variable,
    ];
  }),
  rows: [
    {
      title: 'Is it well?',
      isOpen: true,
      panels: [
        {
          title: 'Writes answered',
          as: 'figure',
          unit: 'percentunit',
          queries: [['', answeredShare(writePaths)]],
          shows:
            'Share of writing requests that did not end with 429 or 5xx. Nothing, while nobody writes.',
          act: 'are nodes away or not whole? Else the log of a coordinator names the reason (docs/OPERATIONS.md, Errors). Senders come again with what was not taken.',
          bounds: { warn: 0.999, bad: 0.99, isFloor: true },
        },
        {
          title: 'Queries answered',
          as: 'figure',
          unit: 'percentunit',
          queries: [['', answeredShare(readPaths)]],
          shows: 'Share of queries that did not end with 429 or 5xx. Nothing, while nobody asks.',
          act: 'are nodes away or not whole? Else the dashboard of the coordinators tells paths and codes.',
          bounds: { warn: 0.999, bad: 0.99, isFloor: true },
        },
        {
          title: 'Processes away',
          as: 'figure',
          unit: 'none',
          queries: [['', 'count(up{@} == 0) or vector(0)']],
          shows: 'Processes of these jobs that the scraper cannot reach.',
          act: 'one of three replicas may be away. Start it; when its machine is gone for good, replace the instance (docs/OPERATIONS.md).',
          bounds: { bad: 1 },
        },
        {
          title: 'Nodes not whole',
          as: 'figure',
          unit: 'none',
          queries: [['', 'count(tsdb_node_bootstrapped{@} == 0) or vector(0)']],
          shows: 'Nodes of which a shard is being loaded or streamed.',
          act: 'usual after a start and while shards move. More than one of a shard at once costs answers: start and roll nodes one after the other.',
          bounds: { warn: 1, bad: 2 },
        },
        {
          title: 'Blocks in doubt, lost',
          as: 'figure',
          unit: 'none',
          queries: [
            ['in doubt', 'sum(tsdb_node_blocks_in_doubt{@})'],
            ['lost', 'sum(tsdb_node_blocks_lost_total{@})'],
          ],
          shows:
            'In doubt: a damaged log, until other replicas have given what is missing. Lost: no replica had all rows.',
          act: 'start the replicas that the log of the node names. Lost: bring back what still has them, if anything has.',
          bounds: { bad: 1 },
        },
        {
          title: 'Key-value store',
          as: 'figure',
          unit: 'none',
          queries: [['', 'max(tsdb_node_store_lineage_awaits_approval{@})']],
          shows:
            'Whether it was restored, or is another one: nobody changes placement or namespaces then.',
          act: 'start all nodes, then `tsdbctl placement approve` (docs/OPERATIONS.md, The key-value store was restored).',
          bounds: { bad: 1 },
          words: [
            [0, 'as it was', 'green'],
            [1, 'awaits approval', 'red'],
          ],
        },
      ],
    },
    {
      title: 'Writes and queries',
      isOpen: true,
      panels: [
        {
          title: 'Samples written',
          unit: 'si:samples/s',
          isStacked: true,
          queries: [
            ['{{format}}', 'sum by (format) (rate(tsdb_coordinator_written_samples_total{@}[@]))'],
          ],
          shows: 'Samples that a majority of the replicas has acknowledged.',
          act: 'a fall: do senders still come? The dashboard of the coordinators has their requests.',
        },
        {
          title: 'Samples refused',
          unit: 'si:samples/s',
          queries: [
            ['{{reason}}', 'sum by (reason) (rate(tsdb_coordinator_refused_samples_total{@}[@]))'],
          ],
          shows:
            '`bad` for good, `passing` may be sent again, `clock` since the clock of a coordinator is ahead.',
          act: 'bad: the sender is told why. Passing: see what is away or full. Clock: set it right at once.',
          bounds: { bad: 1 },
        },
        {
          title: 'Time of a write',
          unit: 's',
          queries: [
            ['median', quantile(0.5, seconds, [], `,path=~"${writePaths}"`)],
            ['99th percentile', quantile(0.99, seconds, [], `,path=~"${writePaths}"`)],
          ],
          shows: 'From the headers to the end of the answer.',
          act: '"Commit log" below tells of the disks, "CPU" of the machines.',
          bounds: { warn: 1, bad: 5 },
        },
        {
          title: 'Queries',
          unit: 'reqps',
          queries: [
            [
              '{{status}}',
              `sum by (status) (rate(tsdb_coordinator_requests_total{@,path=~"${readPaths}"}[@]))`,
            ],
          ],
          shows: 'By the code of the answer.',
          act: '429 is a limit, 503 too few replicas or a process that stops.',
        },
        {
          title: 'Requests that failed',
          unit: 'reqps',
          queries: [
            [
              'writes {{status}}',
              `sum by (status) (rate(tsdb_coordinator_requests_total{@,path=~"${writePaths}",status=~"${failedStatus}"}[@]))`,
            ],
            [
              'queries {{status}}',
              `sum by (status) (rate(tsdb_coordinator_requests_total{@,path=~"${readPaths}",status=~"${failedStatus}"}[@]))`,
            ],
          ],
          shows: 'Those with 429 or 5xx; nothing when all is well.',
          act: 'docs/OPERATIONS.md (Errors) has the texts of the answers with what to do.',
        },
        {
          title: 'Time of a query',
          unit: 's',
          queries: [
            ['median', quantile(0.5, seconds, [], `,path=~"${readPaths}"`)],
            ['99th percentile', quantile(0.99, seconds, [], `,path=~"${readPaths}"`)],
          ],
          shows: 'From the headers to the end of the answer.',
          act: 'the dashboard of the coordinators tells which paths are slow.',
          bounds: { warn: 5, bad: 20 },
        },
      ],
    },
    {
      title: 'Replicas',
      isOpen: true,
      panels: [
        {
          title: 'Shards',
          unit: 'none',
          isStacked: true,
          queries: [
            ['available', 'sum(tsdb_node_shards_available{@})'],
            ['initializing', 'sum(tsdb_node_shards_initializing{@})'],
            ['leaving', 'sum(tsdb_node_shards_leaving{@})'],
          ],
          shows: 'Copies of shards on nodes that answer, by state.',
          act: 'available has to be shards times replicas. Less: a node is away, or shards move.',
        },
        {
          title: 'Do replicas agree?',
          unit: 'none',
          queries: [
            ['differ', 'sum(tsdb_node_repair_blocks_differing{@})'],
            ['not compared yet', 'sum(tsdb_node_repair_blocks_waiting{@})'],
          ],
          shows: 'Pairs of a block and another replica.',
          act: 'what differs is mended by itself. When it stays above 0: docs/REPAIR.md.',
        },
        {
          title: 'Oldest comparison',
          unit: 's',
          queries: [
            ['{{instance}}', 'max by (instance) (tsdb_node_repair_oldest_comparison_seconds{@})'],
          ],
          shows: 'For how long the replicas of some block have not been compared.',
          act: 'days: a replica is away, or runs an older release; the dashboard of the nodes has the reasons.',
        },
        {
          title: 'Steps behind the newest placement',
          unit: 'none',
          queries: [
            [
              '{{instance}}',
              'scalar(max(tsdb_node_placement_version{@})) - max by (instance) (tsdb_node_placement_version{@})',
            ],
          ],
          shows: 'Versions of the placement that a node has not adopted.',
          act: 'for longer than seconds: that node does not hear from the key-value store; its log says why.',
          bounds: { bad: 1 },
        },
        {
          title: 'Rollups: lag',
          unit: 's',
          queries: [['{{instance}}', 'max by (instance) (tsdb_rollup_lag_seconds{@})']],
          shows:
            'For how long a window has been due of which rollups are not made. Nothing without rules that ask for any.',
          act: 'the log of who makes them says what is missing; docs/AGGREGATION.md, Aggregators.',
          bounds: { warn: 60, bad: 900 },
        },
        {
          title: 'Rollups: who makes them',
          unit: 'none',
          queries: [
            ['should', 'max(tsdb_rollups_shares{@})'],
            ['do', 'sum(tsdb_rollups_leader{@})'],
          ],
          shows: 'How many processes are to make rollups, and how many do.',
          act: 'less than should: both aggregators of a pair are away, or no coordinator leads.',
        },
      ],
    },
    {
      title: 'Disk and memory',
      isOpen: true,
      panels: [
        {
          title: 'Commit log: time of a write, 99th percentile',
          unit: 's',
          queries: [
            ['{{instance}}', quantile(0.99, 'tsdb_node_commitlog_write_seconds', ['instance'])],
          ],
          shows: 'How long a group of writes waits for the log, its sync included.',
          act: 'one node: its disk. All: the load. Writes go on while a majority of the replicas is fast.',
          bounds: { warn: 0.1, bad: 0.5 },
        },
        {
          title: 'Commit log on disk',
          unit: 'bytes',
          queries: [['{{instance}}', 'sum by (instance) (tsdb_node_commitlog_bytes{@})']],
          shows:
            'How full the disk is tell `kubelet_volume_stats_available_bytes` and `node_filesystem_avail_bytes`, which are not ours.',
          act: 'it falls with flushes and snapshots. When it only grows, these fail.',
        },
        {
          title: 'Failures of disks',
          unit: 'none',
          queries: [
            [
              'commit log {{instance}}',
              'sum by (instance) (increase(tsdb_node_commitlog_failures_total{@}[@]))',
            ],
            [
              'flushes {{instance}}',
              'sum by (instance) (increase(tsdb_node_flush_failures_total{@}[@]))',
            ],
            [
              'damage {{instance}}',
              'sum by (instance) (increase(tsdb_node_corruptions_total{@}[@]))',
            ],
          ],
          shows: 'Writes, syncs and flushes that failed, and damage that was found.',
          act: 'full: free space, and it goes on by itself. Damage: replicas give what is missing; replace a disk that makes more of it.',
          bounds: { bad: 1 },
        },
        {
          title: 'Memory of processes',
          unit: 'bytes',
          queries: [['{{instance}}', 'sum by (instance) (process_resident_memory_bytes{@})']],
          shows: 'What the operating system gives each.',
          act: 'it has to stay below the limits of the containers, with a quarter to spare.',
        },
        {
          title: 'Series in memory',
          unit: 'short',
          queries: [['{{instance}}', 'sum by (instance) (tsdb_node_series{@})']],
          shows: 'By node.',
          act: 'a jump is most often a tag with ever new values: `/api/v1/status/tsdb` of a coordinator names it.',
        },
        {
          title: 'Refused for memory or limits',
          unit: 'ops',
          queries: [
            ['new series: memory', 'sum(rate(tsdb_node_series_refused_total{@}[@]))'],
            ['new series: limit', 'sum(rate(tsdb_node_new_series_over_limit_total{@}[@]))'],
            ['batches: too much waits', 'sum(rate(tsdb_node_writes_refused_total{@}[@]))'],
            ['writes: limit', 'sum(rate(tsdb_node_writes_over_limit_total{@}[@]))'],
            ['reads: limit', 'sum(rate(tsdb_node_reads_over_limit_total{@}[@]))'],
            ['reads: memory', 'sum(rate(tsdb_node_reads_over_memory_total{@}[@]))'],
          ],
          shows: 'What nodes did not take, by its reason.',
          act: 'more memory, more nodes, or the limit that the errors name.',
          bounds: { bad: 1 },
        },
        {
          title: 'CPU',
          unit: 'short',
          queries: [['{{instance}}', 'sum by (instance) (rate(process_cpu_seconds_total{@}[@]))']],
          shows: 'Cores that each process uses.',
          act: 'near what it has, everything is slow: more instances, or fewer and smaller queries.',
        },
        {
          title: 'Main loop: lag, 99th percentile',
          unit: 's',
          queries: [['{{instance}}', 'max by (instance) (nodejs_eventloop_lag_p99_seconds{@})']],
          shows: 'For how long the one thread of a process is held.',
          act: 'above 0.1 s all latencies of that process grow: take a CPU profile of it.',
          bounds: { warn: 0.1, bad: 0.5 },
        },
        {
          title: 'Parked data',
          unit: 'bytes',
          queries: [['{{instance}}', 'sum by (instance) (tsdb_node_parked_bytes{@})']],
          shows: 'What a placement or a registry took away without a handover or a deletion.',
          act: 'set right what was wrong before it is removed: docs/OPERATIONS.md, Parked data.',
          bounds: { bad: 1 },
        },
      ],
    },
    {
      title: 'Clocks and upgrades',
      panels: [
        {
          title: 'Clocks of nodes',
          unit: 's',
          isSigned: true,
          queries: [['{{instance}}', 'max by (instance) (tsdb_node_clock_ahead_seconds{@})']],
          shows: 'How far ahead of the median; 0 without one, as with fewer than three nodes.',
          act: 'beyond a second: look at NTP of that machine. Beyond 60 s the node goes by the median.',
          bounds: { warn: 1, bad: 30 },
        },
        {
          title: 'Clocks of coordinators',
          unit: 's',
          isSigned: true,
          queries: [
            ['{{instance}}', 'max by (instance) (tsdb_coordinator_clock_ahead_seconds{@})'],
          ],
          shows: 'How far ahead of the median of the nodes.',
          act: 'above 60 s writes and deletions of that coordinator are refused: set its clock right.',
          bounds: { warn: 1, bad: 30 },
        },
        {
          title: 'Level of formats',
          unit: 'none',
          queries: [['{{instance}}', 'max by (instance) (tsdb_node_format_level{@})']],
          shows: 'What nodes write; equal on all of them once an upgrade is finished.',
          act: 'when all run the new release: `tsdbctl upgrade finish` (docs/OPERATIONS.md, Upgrade).',
        },
        {
          title: 'Up since',
          unit: 's',
          queries: [['{{instance}}', 'max by (instance) (time() - process_start_time_seconds{@})']],
          shows: 'Time since each process started.',
          act: 'one that starts again and again says why in the last lines of its log.',
        },
      ],
    },
  ],
};
