/**
 * Writes the dashboards of the chart anew:
 *
 *     node test/dashboards/write.ts
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dashboards, dashboardsFolder } from './dashboards.ts';
import { grafanaText } from './grafana.ts';

mkdirSync(dashboardsFolder, { recursive: true });
for (const dashboard of dashboards) {
  writeFileSync(join(dashboardsFolder, `${dashboard.name}.json`), grafanaText(dashboard));
}
