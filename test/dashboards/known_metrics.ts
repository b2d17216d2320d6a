/** Names of all metrics of ours, as they are registered, by where they are served. */
import { AsideRows, type AsideRowsOptions } from '../../aggregator/aside_rows.ts';
import { rollupMetrics } from '#cluster/rollups/metrics.ts';
import { Metrics } from '#lib/metrics.ts';
import { ClusterMetrics } from '#operator/cluster_metrics.ts';
import { operatorMetrics } from '#operator/metrics.ts';

/** What a text of Prometheus' format has, with the series of histograms and summaries. */
export function metricNamesOf(text: string): Set<string> {
  const names = new Set<string>();
  for (const [, name, type] of text.matchAll(/^# TYPE (\w+) (\w+)$/gm)) {
    const ends = { histogram: ['_bucket', '_sum', '_count'], summary: ['', '_sum', '_count'] };
    for (const end of ends[type as keyof typeof ends] ?? ['']) names.add(`${name}${end}`);
  }
  return names;
}

export async function operatorMetricNames(): Promise<Set<string>> {
  const metrics = new Metrics();
  metrics.collectProcess();
  const figures = operatorMetrics(metrics);
  figures.observeQueue(() => 0);
  figures.observeLeader(() => true);
  new ClusterMetrics(metrics);
  return metricNamesOf(await metrics.text());
}

export async function aggregatorMetricNames(): Promise<Set<string>> {
  const metrics = new Metrics();
  metrics.collectProcess();
  rollupMetrics(metrics);
  // It registers its metrics when it is made, and asks for the rest when rows come.
  new AsideRows({ metrics } as AsideRowsOptions);
  return metricNamesOf(await metrics.text());
}
