/** Aggregators, which make the rollups of large clusters. */
import type { Dashboard } from './grafana.ts';
import { processPanels, processSelector, processVariables, uptime } from './shared.ts';

export const aggregator: Dashboard = {
  name: 'aggregator',
  title: 'tsdb: aggregators',
  description:
    'Whether all rollups are made, and in time. Without aggregators a coordinator makes them: choose its job then. docs/AGGREGATION.md tells how.',
  selector: processSelector,
  variables: processVariables('tsdb_rollups_leader'),
  rows: [
    {
      title: 'Is it well?',
      isOpen: true,
      panels: [
        {
          title: 'Shares nobody makes',
          as: 'figure',
          unit: 'none',
          queries: [['', 'max(tsdb_rollups_shares{@}) - sum(tsdb_rollups_leader{@})']],
          shows:
            'How many processes less make rollups than should. Choose all instances of a cluster.',
          act: 'both aggregators of a pair are away: start one. Windows wait as long as their rows are kept.',
          bounds: { bad: 1 },
        },
        {
          title: 'Lag',
          as: 'figure',
          unit: 's',
          queries: [['', 'max(tsdb_rollup_lag_seconds{@})']],
          shows: 'For how long a window has been due. Seconds, when all is well.',
          act: 'the log of who leads says what is missing: most often nodes that do not answer.',
          bounds: { warn: 60, bad: 900 },
        },
        {
          title: 'Failures',
          as: 'figure',
          unit: 'none',
          queries: [['', 'sum(increase(tsdb_rollup_failures_total{@}[$__range]))']],
          shows:
            'How often rollups could not be made and were tried again, in the time of the dashboard.',
          act: 'a few come with every restart of a node. When they go on: the log.',
          bounds: { warn: 1, bad: 100 },
        },
        uptime,
      ],
    },
    {
      title: 'Rollups',
      isOpen: true,
      panels: [
        {
          title: 'Who makes rollups',
          unit: 'none',
          isStacked: true,
          queries: [['{{instance}}', 'max by (instance) (tsdb_rollups_leader{@})']],
          shows: '1 for each process that makes a share.',
          act: 'one of each pair leads. When that changes again and again: do processes restart?',
        },
        {
          title: 'Lag',
          unit: 's',
          queries: [['{{instance}}', 'max by (instance) (tsdb_rollup_lag_seconds{@})']],
          shows: 'For how long a window has been due of which rollups are not made.',
          act: 'grows on one instance: its log. On all: do the nodes answer? Too many series for so few pairs show as CPU.',
          bounds: { warn: 60, bad: 900 },
        },
        {
          title: 'Failures',
          unit: 'none',
          queries: [
            ['{{instance}}', 'sum by (instance) (increase(tsdb_rollup_failures_total{@}[@]))'],
          ],
          shows: 'How often rollups could not be made and were tried again.',
          act: 'the log says why.',
        },
        {
          title: 'Windows made',
          unit: 'ops',
          queries: [['{{instance}}', 'sum by (instance) (rate(tsdb_rollup_windows_total{@}[@]))']],
          shows: 'Windows of which rollups were made.',
          act: 'nothing for longer than the longest window while there are rules: see the lag.',
        },
        {
          title: 'Rows of rollups',
          unit: 'si:rows/s',
          queries: [
            ['written {{instance}}', 'sum by (instance) (rate(tsdb_rollup_rows_total{@}[@]))'],
            [
              'corrected {{instance}}',
              'sum by (instance) (rate(tsdb_rollup_corrections_total{@}[@]))',
            ],
          ],
          shows:
            'Rows that were written, and those that were written once more, as others had come late.',
          act: 'many corrections: senders come late, and rollups of the time within `bufferPast` (ten minutes) still change.',
        },
        {
          title: 'Rows of clients',
          unit: 'si:rows/s',
          queries: [
            ['taken', 'sum(rate(tsdb_aggregator_written_rows_total{@}[@]))'],
            ['refused', 'sum(rate(tsdb_aggregator_refused_rows_total{@}[@]))'],
          ],
          shows:
            'Rows that clients write to aggregators, which are kept for windows and rollups alone.',
          act: 'refused ones are bad for good; the answer says why.',
        },
        ...processPanels,
      ],
    },
  ],
};
