/** All dashboards, and the files that they become. */
import { join } from 'node:path';
import { aggregator } from './aggregator.ts';
import { cluster } from './cluster.ts';
import { coordinator } from './coordinator.ts';
import type { Dashboard } from './grafana.ts';
import { node } from './node.ts';
import { operator } from './operator.ts';

export const dashboards: readonly Dashboard[] = [cluster, node, coordinator, aggregator, operator];

export const dashboardsFolder: string = join(import.meta.dirname, '../../helm/tsdb/dashboards');
