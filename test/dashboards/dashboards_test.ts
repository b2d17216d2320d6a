/** The dashboards of the chart as files: made from the declarations, whole, and readable for who is on call. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { dashboards, dashboardsFolder } from './dashboards.ts';
import { grafanaText } from './grafana.ts';
import { readPaths, writePaths } from './requests.ts';

const parsed = dashboards.map((dashboard) => ({
  dashboard,
  json: JSON.parse(grafanaText(dashboard)) as any,
}));

/** Those of collapsed rows, too, without the rows themselves. */
const panelsOf = (json: any): any[] =>
  json.panels.flatMap((panel: any) => (panel.type === 'row' ? panel.panels : [panel]));

test('the files of the chart are what the declarations make', () => {
  const files = readdirSync(dashboardsFolder).sort();
  assert.deepEqual(files, dashboards.map(({ name }) => `${name}.json`).sort());
  for (const dashboard of dashboards) {
    assert.equal(
      readFileSync(join(dashboardsFolder, `${dashboard.name}.json`), 'utf8'),
      grafanaText(dashboard),
      'node test/dashboards/write.ts writes them anew',
    );
  }
});

test('panels have IDs of their own, do not overlap and stay within the grid', () => {
  for (const { json } of parsed) {
    const ids = [...json.panels, ...json.panels.flatMap((panel: any) => panel.panels ?? [])].map(
      ({ id }) => id as number,
    );
    assert.equal(new Set(ids).size, ids.length, json.title);
    const shown = [json.panels, ...json.panels.map((panel: any) => panel.panels ?? [])];
    for (const together of shown) {
      const taken = new Set<string>();
      for (const { gridPos, title } of together) {
        assert.ok(gridPos.x + gridPos.w <= 24, title);
        for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
          for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
            assert.ok(!taken.has(`${x},${y}`), `${json.title}: ${title} lies over another panel`);
            taken.add(`${x},${y}`);
          }
        }
      }
    }
  }
});

test('every panel has a unit, says what it shows and what to do, and is named once in its row', () => {
  for (const { dashboard } of parsed) {
    const count = dashboard.rows.reduce((sum, { panels }) => sum + panels.length, 0);
    assert.ok(count >= 14 && count <= 45, `${dashboard.name} has ${count} panels`);
    for (const row of dashboard.rows) {
      const titles = row.panels.map(({ title }) => title);
      assert.equal(new Set(titles).size, titles.length, row.title);
      for (const { title, shows, act, queries } of row.panels) {
        assert.match(shows, /\S.*\.$/, title);
        assert.match(act, /\S.*[.?]$/, title);
        assert.ok(queries.length > 0 && queries.length <= 8, title);
        // Several lines without a name cannot be told apart.
        if (queries.length > 1)
          assert.ok(
            queries.every(([legend]) => legend !== ''),
            title,
          );
      }
    }
  }
});

test('panels and variables ask the chosen data source, and variables that are named exist', () => {
  for (const { json } of parsed) {
    const names = new Set(json.templating.list.map(({ name }: any) => name));
    const own = new Set([...names, '__rate_interval', '__range']);
    for (const part of [...panelsOf(json), ...json.templating.list.slice(1)]) {
      assert.equal(part.datasource.uid, '${datasource}');
    }
    const texts = [
      ...panelsOf(json).flatMap(({ targets }) => targets.map(({ expr }: any) => expr as string)),
      ...json.templating.list.slice(1).map(({ definition }: any) => definition as string),
    ];
    for (const text of texts) {
      assert.ok(!text.includes('@'), text);
      for (const [, name] of text.matchAll(/\$(\w+)/g)) assert.ok(own.has(name!), text);
    }
  }
});

test('no path of the API is a write and a query', () => {
  const [isWrite, isRead] = [writePaths, readPaths].map((paths) => new RegExp(`^(?:${paths})$`));
  const writes = [
    ...['/api/v1/prom/remote/write', '/api/v1/write', '/write', '/api/v2/write', '/api/put'],
    ...['/api/v1/import/prometheus', '/api/v1/json/write', '/v1/metrics', '/datadog/api/v1/series'],
  ];
  const reads = [
    ...['/api/v1/query', '/api/v1/query_range', '/prometheus/api/v1/read', '/api/v1/series'],
    ...['/api/v1/label/{name}/values', '/render', '/api/v1/export', '/m3query/api/v1/query'],
  ];
  for (const path of writes) assert.ok(isWrite!.test(path) && !isRead!.test(path), path);
  for (const path of reads) assert.ok(isRead!.test(path) && !isWrite!.test(path), path);
  for (const path of ['/health', '/api/v1/placement', '/ready', '/routes']) {
    assert.ok(!isRead!.test(path) && !isWrite!.test(path), path);
  }
});
