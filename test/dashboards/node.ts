/** One storage node, or several beside each other: what it is asked, what it holds, and what its disk does. */
import type { Dashboard } from './grafana.ts';
import { processPanels, processSelector, processVariables, uptime } from './shared.ts';
import { quantile } from './requests.ts';

const commitLog = 'tsdb_node_commitlog_write_seconds';

export const node: Dashboard = {
  name: 'node',
  title: 'tsdb: storage nodes',
  description:
    'Writes, reads, memory, disk and shards of storage nodes. docs/OPERATIONS.md has all metrics.',
  selector: processSelector,
  variables: processVariables('tsdb_node_series'),
  rows: [
    {
      title: 'Is it well?',
      isOpen: true,
      panels: [
        {
          title: 'Whole',
          as: 'figure',
          unit: 'none',
          queries: [['', 'min(tsdb_node_bootstrapped{@})']],
          shows:
            'Whether every shard of every namespace is whole on all the nodes that are chosen.',
          act: 'a node that starts loads its files first; one that takes shards over streams them. When it lasts, the log says which replica is waited for.',
          bounds: { bad: 1, isFloor: true },
          words: [
            [0, 'no', 'red'],
            [1, 'yes', 'green'],
          ],
        },
        uptime,
        {
          title: 'Series in memory',
          as: 'figure',
          unit: 'short',
          queries: [['', 'sum(tsdb_node_series{@})']],
          shows: 'Series of which the nodes have rows in memory, each replica counted.',
          act: 'a jump is most often a new tag with many values: look at "Series and terms" below.',
        },
        {
          title: 'Rows written',
          as: 'figure',
          unit: 'si:rows/s',
          queries: [['', 'sum(rate(tsdb_node_rows_written_total{@}[@]))']],
          shows: 'Rows that the nodes took, each replica counted.',
          act: 'when it falls, look at the coordinators: do senders still come?',
        },
        {
          title: 'Failures of the disk',
          as: 'figure',
          unit: 'none',
          queries: [
            [
              '',
              'sum(increase(tsdb_node_commitlog_failures_total{@}[$__range])) + sum(increase(tsdb_node_flush_failures_total{@}[$__range])) + sum(increase(tsdb_node_corruptions_total{@}[$__range]))',
            ],
          ],
          shows:
            'Writes, syncs and flushes that failed, and damaged files that were found, in the time of the dashboard.',
          act: 'is the disk full? Else look at the kernel log of the machine; the log of the node names files.',
          bounds: { bad: 1 },
        },
        {
          title: 'Blocks in doubt',
          as: 'figure',
          unit: 'none',
          queries: [['', 'sum(tsdb_node_blocks_in_doubt{@})']],
          shows:
            'Blocks of shards that may lack acknowledged rows, since a part of the log was damaged; they count for no answer.',
          act: 'it falls to 0 by itself while other replicas can be reached: start those that the log of the node names.',
          bounds: { bad: 1 },
        },
      ],
    },
    {
      title: 'Writes',
      isOpen: true,
      panels: [
        {
          title: 'Rows written',
          unit: 'si:rows/s',
          queries: [
            ['{{instance}}', 'sum by (instance) (rate(tsdb_node_rows_written_total{@}[@]))'],
          ],
          shows: 'Rows by node.',
          act: 'nodes of one weight get about as many. One that gets more has more shards, or hot series.',
        },
        {
          title: 'Writes refused',
          unit: 'ops',
          queries: [
            ['rows', 'sum(rate(tsdb_node_rows_refused_total{@}[@]))'],
            ['batches: too much waits', 'sum(rate(tsdb_node_writes_refused_total{@}[@]))'],
            ['batches: limit', 'sum(rate(tsdb_node_writes_over_limit_total{@}[@]))'],
            ['batches: clock of the writer', 'sum(rate(tsdb_node_versions_refused_total{@}[@]))'],
            ['new series: memory', 'sum(rate(tsdb_node_series_refused_total{@}[@]))'],
            ['new series: limit', 'sum(rate(tsdb_node_new_series_over_limit_total{@}[@]))'],
          ],
          shows:
            'What was not taken, by its reason. Rows are refused for their times or tags most often.',
          act: 'memory: a higher `db.memoryMax` or more nodes. Limits: `db.limits`. Clock: set that of the coordinator right. Too much waits: the disk is slow.',
          bounds: { bad: 1 },
        },
        {
          title: 'Commit log: time of a write',
          unit: 's',
          queries: [
            ['median', quantile(0.5, commitLog)],
            ['99th percentile {{instance}}', quantile(0.99, commitLog, ['instance'])],
          ],
          shows:
            'How long a group of writes waits for the log, its sync included. No write is faster.',
          act: 'the disk pauses, or the main loop is held (its lag is below). Give the data folder a disk of its own.',
          bounds: { warn: 0.1, bad: 0.5 },
        },
        {
          title: 'Waiting for the commit log',
          unit: 'bytes',
          queries: [['{{instance}}', 'sum by (instance) (tsdb_node_write_queue_bytes{@})']],
          shows: 'Bytes of batches that are not in the log yet.',
          act: 'when it grows, batches are refused soon, and senders are told to come again: see the time of a write.',
        },
      ],
    },
    {
      title: 'Reads',
      panels: [
        {
          title: 'Reads of series',
          unit: 'ops',
          queries: [['{{instance}}', 'sum by (instance) (rate(tsdb_node_fetches_total{@}[@]))']],
          shows: 'Reads that coordinators put to the nodes.',
          act: 'a jump: look at the queries of the coordinators.',
        },
        {
          title: 'Reads refused',
          unit: 'ops',
          queries: [
            ['too many at a time', 'sum(rate(tsdb_node_reads_over_limit_total{@}[@]))'],
            ['memory', 'sum(rate(tsdb_node_reads_over_memory_total{@}[@]))'],
            ['limit over a time', 'sum(rate(tsdb_node_queries_over_limit_total{@}[@]))'],
          ],
          shows: 'What was not answered, by its reason.',
          act: 'which query asks for so much? Narrow it, or raise the limit that its error names (`db.limits`, `db.memoryMax`).',
          bounds: { bad: 0.1 },
        },
        {
          title: 'What queries read',
          unit: 'ops',
          queries: [
            ['series times blocks', 'sum(rate(tsdb_node_query_series_blocks_total{@}[@]))'],
            ['series from filesets', 'sum(rate(tsdb_node_query_disk_series_total{@}[@]))'],
            ['names and values', 'sum(rate(tsdb_node_query_metadata_total{@}[@]))'],
          ],
          shows: 'How much queries ask for.',
          act: 'it tells by what a limit of `db.limits` is best set.',
        },
        {
          title: 'Bytes from filesets',
          unit: 'binBps',
          queries: [
            ['read', 'sum(rate(tsdb_node_file_read_bytes_total{@}[@]))'],
            ['of queries', 'sum(rate(tsdb_node_query_disk_bytes_total{@}[@]))'],
          ],
          shows: 'What is read from the disk; the rest are compactions, repairs and other nodes.',
          act: 'near what the disk can give queries wait: more memory keeps more pages.',
        },
        {
          title: 'Pages found in memory',
          unit: 'percentunit',
          queries: [
            [
              '{{instance}}',
              'sum by (instance) (rate(tsdb_node_page_hits_total{@}[@])) / (sum by (instance) (rate(tsdb_node_page_hits_total{@}[@])) + sum by (instance) (rate(tsdb_node_page_misses_total{@}[@])))',
            ],
          ],
          shows:
            'Share of the pages of filesets that need no disk. Nothing, while nobody reads from filesets.',
          act: 'low beside slow queries: more memory for caches, or shorter times in dashboards.',
        },
      ],
    },
    {
      title: 'Memory and CPU',
      panels: [
        {
          title: 'What takes memory',
          unit: 'bytes',
          isStacked: true,
          queries: [
            ['rows', 'sum(tsdb_node_store_bytes{@})'],
            ['index', 'sum(tsdb_node_index_bytes{@})'],
            ['caches of filesets', 'sum(tsdb_node_cache_bytes{@})'],
            ['answers', 'sum(tsdb_node_read_bytes{@})'],
          ],
          shows:
            'Of all nodes that are chosen. Rows, index and caches of each have `db.memoryMax` together.',
          act: 'rows near the limit: shorter blocks, more nodes. Index near the limit: too many series, see beside.',
        },
        {
          title: 'Series and terms',
          unit: 'short',
          queries: [
            ['series {{instance}}', 'sum by (instance) (tsdb_node_series{@})'],
            ['terms {{instance}}', 'sum by (instance) (tsdb_node_index_terms{@})'],
          ],
          shows: 'Series in memory, and distinct pairs of a tag name and a value.',
          act: 'terms that grow on and on are a tag with ever new values: `/api/v1/status/tsdb` of a coordinator names tags by their values; drop the tag at the sender.',
        },
        {
          title: 'Rows in memory',
          unit: 'short',
          queries: [['{{instance}}', 'sum by (instance) (tsdb_node_samples{@})']],
          shows: 'Rows that are in no fileset yet: a saw, which falls when blocks are flushed.',
          act: 'when it does not fall, flushes fail: see "Failures" under Disk.',
        },
        ...processPanels,
      ],
    },
    {
      title: 'Disk',
      panels: [
        {
          title: 'Commit log on disk',
          unit: 'bytes',
          queries: [['{{instance}}', 'sum by (instance) (tsdb_node_commitlog_bytes{@})']],
          shows:
            'It grows until a flush or a snapshot takes its place, and is read at a start. How full the disk is tell `kubelet_volume_stats_available_bytes` and `node_filesystem_avail_bytes`, which are not ours.',
          act: 'when it only grows, flushes or snapshots fail, or a block is in doubt; the log of the node says which.',
        },
        {
          title: 'Written to disk',
          unit: 'binBps',
          queries: [
            ['commit log', 'sum(rate(tsdb_node_commitlog_written_bytes_total{@}[@]))'],
            ['flushes', 'sum(rate(tsdb_node_flushed_bytes_total{@}[@]))'],
            ['snapshots', 'sum(rate(tsdb_node_snapshot_bytes_total{@}[@]))'],
          ],
          shows: 'Bytes by what writes them.',
          act: 'it has to stay below what the disk can take; flushes come at the ends of blocks.',
        },
        {
          title: 'Failures',
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
          act: 'a full disk: free space, and it goes on by itself. Damage: replicas give what is missing; replace a disk that makes more of it.',
          bounds: { bad: 1 },
        },
        {
          title: 'Blocks flushed, snapshots',
          unit: 'none',
          queries: [
            ['blocks', 'sum(increase(tsdb_node_flushed_blocks_total{@}[@]))'],
            ['filesets of them', 'sum(increase(tsdb_node_flushed_filesets_total{@}[@]))'],
            ['snapshots', 'sum(increase(tsdb_node_snapshots_total{@}[@]))'],
            ['compacted filesets', 'sum(increase(tsdb_node_compacted_filesets_total{@}[@]))'],
          ],
          shows: 'What goes from memory to files, and short filesets that long ones stand for.',
          act: 'nothing for longer than a block and its `bufferPast`: see "Failures".',
        },
        {
          title: 'Time of a background round',
          unit: 's',
          queries: [['{{instance}}', 'max by (instance) (tsdb_node_tick_seconds{@})']],
          shows: 'How long the last round of expiry and flushes took.',
          act: 'longer than a block, flushes come late and memory grows: a faster disk, or more nodes.',
        },
      ],
    },
    {
      title: 'Shards and replicas',
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
          shows: 'By state, of the nodes that are chosen.',
          act: 'initializing for hours: the log says which replica is waited for (docs/OPERATIONS.md, Machines that do not come back).',
        },
        {
          title: 'Do replicas agree?',
          unit: 'none',
          queries: [
            ['differ', 'sum(tsdb_node_repair_blocks_differing{@})'],
            ['not compared yet', 'sum(tsdb_node_repair_blocks_waiting{@})'],
          ],
          shows: 'Pairs of a block and another replica.',
          act: 'what differs is taken from the other replica and falls to 0. When it comes back, clocks or a disk are wrong: docs/REPAIR.md.',
        },
        {
          title: 'Comparisons that failed',
          unit: 'none',
          queries: [
            ['{{reason}}', 'sum by (reason) (increase(tsdb_node_repair_failures_total{@}[@]))'],
          ],
          shows: 'By reason; nothing when all is well.',
          act: 'codes as UNAVAILABLE: can the nodes reach each other on 9000? Others pass.',
        },
        {
          title: 'Parked data',
          unit: 'bytes',
          queries: [['{{instance}}', 'sum by (instance) (tsdb_node_parked_bytes{@})']],
          shows:
            'Filesets that a placement took without a handover, or a registry without a deletion.',
          act: 'set right what was wrong before they are removed: docs/OPERATIONS.md, Parked data.',
          bounds: { bad: 1 },
        },
      ],
    },
    {
      title: 'Windows and the embedded key-value store',
      panels: [
        {
          title: 'Windows of aggregated namespaces',
          unit: 'ops',
          queries: [
            ['windows', 'sum(rate(tsdb_node_aggregation_windows_total{@}[@]))'],
            [
              'slices that could not be made',
              'sum(rate(tsdb_node_aggregation_failures_total{@}[@]))',
            ],
          ],
          shows: 'They are made when the samples of their time are closed, some hours later.',
          act: 'slices are tried again; the log says why one fails.',
        },
        {
          title: 'Key-value store: time of a commit',
          unit: 's',
          queries: [['99th percentile', quantile(0.99, 'tsdb_kv_commit_seconds')]],
          shows: 'Of a single node. A cluster has etcd, which tells of itself.',
          act: 'as the commit log: a slow disk.',
          bounds: { warn: 0.5, bad: 2 },
        },
      ],
    },
  ],
};
