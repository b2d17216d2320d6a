/** Coordinators: who writes and asks, what is refused, and how long it takes. */
import type { Dashboard } from './grafana.ts';
import { answeredShare, failedStatus, quantile, readPaths, writePaths } from './requests.ts';
import { processPanels, processSelector, processVariables, uptime } from './shared.ts';

const seconds = 'tsdb_coordinator_request_seconds';

export const coordinator: Dashboard = {
  name: 'coordinator',
  title: 'tsdb: coordinators',
  description:
    'Requests, samples, queries and memory of coordinators. docs/OPERATIONS.md has all metrics.',
  selector: processSelector,
  variables: processVariables('tsdb_coordinator_front_series'),
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
          act: 'the log of a coordinator names the reason, docs/OPERATIONS.md (Errors) what to do. Senders come again with what was not taken.',
          bounds: { warn: 0.999, bad: 0.99, isFloor: true },
        },
        {
          title: 'Queries answered',
          as: 'figure',
          unit: 'percentunit',
          queries: [['', answeredShare(readPaths)]],
          shows: 'Share of queries that did not end with 429 or 5xx. Nothing, while nobody asks.',
          act: '"Requests that failed" tells which paths and codes: 429 is a limit, 503 too few replicas.',
          bounds: { warn: 0.999, bad: 0.99, isFloor: true },
        },
        {
          title: 'Samples written',
          as: 'figure',
          unit: 'si:samples/s',
          queries: [['', 'sum(rate(tsdb_coordinator_written_samples_total{@}[@]))']],
          shows:
            'Samples that a majority of the replicas has acknowledged in every ready namespace.',
          act: 'when it falls: do senders still come ("Requests")?',
        },
        {
          title: 'Series of writers',
          as: 'figure',
          unit: 'short',
          queries: [['', 'sum(tsdb_coordinator_front_series{@})']],
          shows: 'Series that coordinators remember, so that they need not be named again.',
          act: 'far more than there are active series: names change all the time.',
        },
        {
          title: 'Clock ahead',
          as: 'figure',
          unit: 's',
          queries: [['', 'max(abs(tsdb_coordinator_clock_ahead_seconds{@}))']],
          shows: 'How far the clock of a coordinator is from the median of the nodes.',
          act: 'set the clock right (NTP): more than 60 s ahead, its writes are refused.',
          bounds: { warn: 1, bad: 30 },
        },
        uptime,
      ],
    },
    {
      title: 'Requests',
      isOpen: true,
      panels: [
        {
          title: 'Requests',
          unit: 'reqps',
          queries: [
            ['{{path}}', 'topk(15, sum by (path) (rate(tsdb_coordinator_requests_total{@}[@])))'],
          ],
          shows: 'By path, the fifteen that most come for.',
          act: 'a path that you do not know: who sends to it?',
        },
        {
          title: 'Requests that failed',
          unit: 'reqps',
          queries: [
            [
              '{{status}} {{path}}',
              `sum by (path, status) (rate(tsdb_coordinator_requests_total{@,status=~"${failedStatus}|4.."}[@]))`,
            ],
          ],
          shows:
            'By code and path. 4xx are mistakes of who asks; 429 and 5xx pass, and may be sent again.',
          act: '400 of writes: bad samples, as the answer says. 429: limits. 503: too few replicas answer; look at the cluster.',
        },
        {
          title: 'Requests by instance',
          unit: 'reqps',
          queries: [
            ['{{instance}}', 'sum by (instance) (rate(tsdb_coordinator_requests_total{@}[@]))'],
          ],
          shows: 'How the work is shared.',
          act: 'one that gets all: senders keep their connections. Have them spread, or restart them in turns.',
        },
        {
          title: 'Time of a write',
          unit: 's',
          queries: [
            ['median', quantile(0.5, seconds, [], `,path=~"${writePaths}"`)],
            ['99th percentile', quantile(0.99, seconds, [], `,path=~"${writePaths}"`)],
          ],
          shows: 'From the headers to the end of the answer.',
          act: 'look at the commit log of the nodes (its time of a write) and at CPU. A slow sender counts, too.',
          bounds: { warn: 1, bad: 5 },
        },
        {
          title: 'Time of a query',
          unit: 's',
          queries: [
            ['median', quantile(0.5, seconds, [], `,path=~"${readPaths}"`)],
            ['99th percentile', quantile(0.99, seconds, [], `,path=~"${readPaths}"`)],
          ],
          shows: 'From the headers to the end of the answer.',
          act: '"Slowest paths" tells which kind; `stats=all` of a query tells where its time goes.',
          bounds: { warn: 5, bad: 20 },
        },
        {
          title: 'Slowest paths, 99th percentile',
          unit: 's',
          queries: [['{{path}}', `topk(10, ${quantile(0.99, seconds, ['path'])})`]],
          shows: 'The ten that take longest.',
          act: 'administrative paths may take seconds; queries should not.',
        },
      ],
    },
    {
      title: 'Samples',
      panels: [
        {
          title: 'Samples written',
          unit: 'si:samples/s',
          isStacked: true,
          queries: [
            ['{{format}}', 'sum by (format) (rate(tsdb_coordinator_written_samples_total{@}[@]))'],
          ],
          shows: 'By format.',
          act: 'a format that falls to 0: its senders are gone, or sent back.',
        },
        {
          title: 'Samples refused',
          unit: 'si:samples/s',
          queries: [
            [
              '{{reason}} {{format}}',
              'sum by (format, reason) (rate(tsdb_coordinator_refused_samples_total{@}[@]))',
            ],
          ],
          shows:
            '`bad` for good, `passing` may be sent again, `clock` since the clock of a coordinator is ahead.',
          act: 'bad: the answer, or the log for Carbon and statsd, names the first of them. Clock: set it right at once.',
          bounds: { bad: 1 },
        },
        {
          title: 'Late samples that cold writes would take',
          unit: 'si:samples/s',
          queries: [['all', 'sum(rate(tsdb_coordinator_cold_refused_samples_total{@}[@]))']],
          shows:
            'A sender that was away loses its backlog, as the namespace was made without cold writes.',
          act: 'make the namespace anew with `coldWritesEnabled`, or a longer `bufferPast`.',
        },
        {
          title: 'Exemplars, metadata, histograms',
          unit: 'ops',
          queries: [
            ['exemplars written', 'sum(rate(tsdb_coordinator_written_exemplars_total{@}[@]))'],
            ['exemplars dropped', 'sum(rate(tsdb_coordinator_dropped_exemplars_total{@}[@]))'],
            ['metadata written', 'sum(rate(tsdb_coordinator_written_metadata_total{@}[@]))'],
            ['metadata dropped', 'sum(rate(tsdb_coordinator_dropped_metadata_total{@}[@]))'],
            ['histograms written', 'sum(rate(tsdb_coordinator_written_histograms_total{@}[@]))'],
            ['histograms dropped', 'sum(rate(tsdb_coordinator_dropped_histograms_total{@}[@]))'],
          ],
          shows: 'What comes beside samples. Metadata are written once in two hours.',
          act: 'what is dropped has a `reason`: `budget` is `exemplars.maxPerSecond`, `upgrade` waits for `tsdbctl upgrade finish`.',
        },
        {
          title: 'Dropped by rules',
          unit: 'si:samples/s',
          queries: [
            [
              'kept for {{kept}}',
              'sum by (kept) (rate(tsdb_coordinator_dropped_samples_total{@}[@]))',
            ],
          ],
          shows: 'Samples that aggregation rules drop; they are acknowledged.',
          act: 'more than meant: `tsdbctl aggregation-rules explain` tells which rule takes a series.',
        },
        {
          title: 'Pairs of Prometheus',
          unit: 'si:samples/s',
          queries: [
            [
              'of the other replica: {{cluster}}',
              'sum by (cluster) (rate(tsdb_coordinator_ha_deduplicated_samples_total{@}[@]))',
            ],
            [
              'takeovers: {{cluster}}',
              'sum by (cluster) (rate(tsdb_coordinator_ha_takeovers_total{@}[@]))',
            ],
          ],
          shows: 'Samples of the replica that is not taken, and how often another one was taken.',
          act: 'takeovers again and again: both replicas come late. A longer `haPairs.takeoverTimeout`.',
        },
      ],
    },
    {
      title: 'Queries and memory',
      panels: [
        {
          title: 'Questions to storage',
          unit: 'ops',
          queries: [
            ['{{kind}}', 'sum by (kind) (rate(tsdb_coordinator_fetches_total{@}[@]))'],
            ['failed: {{kind}}', 'sum by (kind) (rate(tsdb_coordinator_fetch_errors_total{@}[@]))'],
          ],
          shows: 'What queries ask of the nodes.',
          act: 'failures: too few replicas, or limits of the nodes; the answers say which.',
        },
        {
          title: 'Series fetched',
          unit: 'si:series/s',
          queries: [
            [
              '{{instance}}',
              'sum by (instance) (rate(tsdb_coordinator_fetched_series_total{@}[@]))',
            ],
          ],
          shows: 'Series that storage answered with.',
          act: 'millions: which dashboard asks so? Narrow its selectors, or record what it shows.',
        },
        {
          title: 'Memory of queries',
          unit: 'bytes',
          queries: [['{{instance}}', 'sum by (instance) (tsdb_coordinator_read_bytes{@})']],
          shows:
            'Of reads that are under way, and of answers until they have left; `limits.maxReadBytesInFlight` at most.',
          act: 'at its limit others wait: more coordinators, or smaller queries.',
        },
        {
          title: 'Queries that wait or are cut off',
          unit: 'short',
          queries: [
            ['wait for memory', 'sum(tsdb_coordinator_reads_waiting{@})'],
            ['refused', 'sum(increase(tsdb_coordinator_reads_over_memory_total{@}[@]))'],
            ['answers cut off', 'sum(increase(tsdb_coordinator_answers_cut_total{@}[@]))'],
          ],
          shows:
            'Reads wait for memory 5 s at most. Answers are cut off when clients take them slowly meanwhile.',
          act: 'as "Memory of queries"; which client reads so slowly?',
          bounds: { bad: 1 },
        },
        {
          title: 'Memory of writers',
          unit: 'bytes',
          isStacked: true,
          queries: [
            ['series', 'sum(tsdb_coordinator_front_memory_bytes{@})'],
            ['OTLP', 'sum(tsdb_coordinator_otlp_memory_bytes{@})'],
            ['lines of JSON', 'sum(tsdb_coordinator_json_lines_memory_bytes{@})'],
          ],
          shows: 'What is remembered of series that come.',
          act: 'it is bounded by `memoryMax`. When it is full series are named anew, which takes CPU.',
        },
        ...processPanels,
      ],
    },
    {
      title: 'Carbon, statsd, OpenTSDB',
      panels: [
        {
          title: 'Connections',
          unit: 'none',
          queries: [
            ['Carbon', 'sum(tsdb_coordinator_carbon_connections{@})'],
            ['statsd', 'sum(tsdb_coordinator_statsd_connections{@})'],
            ['OpenTSDB', 'sum(tsdb_coordinator_opentsdb_connections{@})'],
            ['that wait', 'sum(tsdb_coordinator_waiting_streams{@})'],
          ],
          shows:
            'Those that wait have rows that could not be written; they are not read meanwhile.',
          act: 'waiting: as for writes that are not answered.',
        },
        {
          title: 'statsd: samples',
          unit: 'si:samples/s',
          queries: [
            ['{{type}}', 'sum by (type) (rate(tsdb_coordinator_statsd_samples_total{@}[@]))'],
            [
              'refused: {{reason}}',
              'sum by (reason) (rate(tsdb_coordinator_statsd_refused_samples_total{@}[@]))',
            ],
          ],
          shows: 'By type, and what was refused by its reason (docs/STATSD.md).',
          act: 'the reason says what is wrong with the lines of a sender.',
        },
        {
          title: 'Lost datagrams and lines',
          unit: 'ops',
          queries: [
            [
              'datagrams of statsd',
              'sum(rate(tsdb_coordinator_statsd_dropped_packets_total{@}[@]))',
            ],
            [
              'lines for other coordinators',
              'sum(rate(tsdb_coordinator_statsd_lost_lines_total{@}[@]))',
            ],
            [
              'datagrams of Carbon',
              'sum(rate(tsdb_coordinator_carbon_dropped_datagrams_total{@}[@]))',
            ],
            [
              'flushes of statsd left out',
              'sum(rate(tsdb_coordinator_statsd_late_flushes_total{@}[@]))',
            ],
          ],
          shows: 'UDP has no answers: what cannot be kept is gone.',
          act: 'send by TCP, or to more coordinators; look at CPU and at the time of a write.',
          bounds: { bad: 1 },
        },
      ],
    },
  ],
};
