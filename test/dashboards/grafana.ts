/**
 * Grafana's JSON of a dashboard from a short declaration. Only what Grafana needs is written: what it has defaults for is left
 * to it.
 */

/** Of Grafana: `si:rows/s` is "1.2 krows/s". A name of one's own must not begin with a letter for a power of ten. */
export type Unit =
  | 'none'
  | 'short'
  | 's'
  | 'bytes'
  | 'binBps'
  | 'percentunit'
  | 'reqps'
  | 'ops'
  | 'si:rows/s'
  | 'si:samples/s'
  | 'si:series'
  | 'si:series/s';

/** From where on a value is yellow, and red; with `isFloor` below which. */
export interface Bounds {
  readonly warn?: number;
  readonly bad: number;
  readonly isFloor?: true;
}

/**
 * A query: its legend and its PromQL. In that `{@}` stands for the selector of the dashboard (`{@,reason="bad"}` for more than
 * it), `[@]` for the range that suits the resolution of a graph.
 */
export type Query = readonly [legend: string, expression: string];

export interface Panel {
  readonly title: string;
  /** A figure, a graph, or stretches of colour by time; default: a graph. */
  readonly as?: 'figure' | 'states';
  readonly unit: Unit;
  readonly queries: readonly Query[];
  /** What it shows, when that is not said by the title. */
  readonly shows: string;
  /** What to do when it looks bad. */
  readonly act: string;
  readonly bounds?: Bounds;
  readonly isStacked?: true;
  /** Whether values below 0 mean something. */
  readonly isSigned?: true;
  /** Words for values, with their colours. */
  readonly words?: readonly (readonly [value: number, text: string, color: string])[];
}

export interface Row {
  readonly title: string;
  /** Others are collapsed. */
  readonly isOpen?: true;
  readonly panels: readonly Panel[];
}

export interface Variable {
  readonly name: string;
  readonly label: string;
  /** Its values are those that the label has in series of this selector. */
  readonly of: string;
  readonly from: string;
  /** "All" also means series without the label, as there are outside of Kubernetes. */
  readonly mayLack?: true;
}

export interface Dashboard {
  /** Of its file, and with `tsdb-` before it how Grafana knows it. */
  readonly name: string;
  readonly title: string;
  readonly description: string;
  /** Of labels, without braces; what `@` of queries stands for. */
  readonly selector: string;
  readonly variables: readonly Variable[];
  readonly rows: readonly Row[];
}

const schemaVersion = 39;
const columns = 24;
const sizes = {
  figure: { w: 4, h: 4 },
  graph: { w: 8, h: 8 },
  states: { w: 24, h: 9 },
} as const;
const dataSource = { type: 'prometheus', uid: '${datasource}' };

/** The text of a query as Grafana gets it. */
export function expressionOf(dashboard: Dashboard, [, expression]: Query): string {
  return expression
    .replaceAll('{@', `{${dashboard.selector}`)
    .replaceAll('[@]', '[$__rate_interval]');
}

/** The file: a line for each panel, so that a change of one is a change of one line. */
export function grafanaText(dashboard: Dashboard): string {
  const { panels, ...rest } = grafanaDashboard(dashboard);
  const lines = Object.entries(rest).map(
    ([key, value]) => `  ${JSON.stringify(key)}: ${JSON.stringify(value)},`,
  );
  const ofPanels = panels.map((panel) => `    ${JSON.stringify(panel)}`);
  return ['{', ...lines, '  "panels": [', ofPanels.join(',\n'), '  ]', '}', ''].join('\n');
}

function grafanaDashboard(dashboard: Dashboard): { readonly panels: readonly object[] } {
  return {
    uid: `tsdb-${dashboard.name}`,
    title: dashboard.title,
    description: dashboard.description,
    tags: ['tsdb'],
    schemaVersion,
    version: 1,
    editable: true,
    graphTooltip: 1,
    refresh: '30s',
    time: { from: 'now-3h', to: 'now' },
    links: [
      {
        ...{ type: 'dashboards', title: 'tsdb', tags: ['tsdb'], asDropdown: true },
        ...{ keepTime: true, includeVars: true },
      },
    ],
    templating: { list: [dataSourceVariable, ...dashboard.variables.map(variableJson)] },
    panels: panelsJson(dashboard),
  } as { readonly panels: readonly object[] };
}

const dataSourceVariable = {
  ...{ name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus' },
  refresh: 1,
};

/** What Grafana asks for the values of a variable. */
export function variableQuery({ of, from }: Variable): string {
  return `label_values(${of}, ${from})`;
}

function variableJson(variable: Variable): object {
  return {
    ...{ name: variable.name, label: variable.label, type: 'query', datasource: dataSource },
    query: { query: variableQuery(variable), refId: variable.name },
    definition: variableQuery(variable),
    ...{ refresh: 2, sort: 1, multi: true, includeAll: true },
    ...(variable.mayLack === true ? { allValue: '.*' } : {}),
    current: { text: ['All'], value: ['$__all'] },
  };
}

/** From left to right, and on in the next line; a collapsed row has its panels in itself. */
function panelsJson(dashboard: Dashboard): object[] {
  const all: object[] = [];
  let id = 1;
  let y = 0;
  for (const row of dashboard.rows) {
    const rowId = id++;
    const rowY = y++;
    const inside: object[] = [];
    let x = 0;
    let height = 0;
    for (const panel of row.panels) {
      const { w, h } = sizes[panel.as ?? 'graph'];
      if (x + w > columns) {
        x = 0;
        y += height;
        height = 0;
      }
      inside.push(panelJson(dashboard, panel, id++, { x, y, w, h }));
      x += w;
      height = Math.max(height, h);
    }
    y += height;
    const isCollapsed = row.isOpen !== true;
    all.push({
      ...{ id: rowId, type: 'row', title: row.title, collapsed: isCollapsed },
      gridPos: { x: 0, y: rowY, w: columns, h: 1 },
      panels: isCollapsed ? inside : [],
    });
    if (!isCollapsed) all.push(...inside);
    // What is collapsed takes no room.
    else y = rowY + 1;
  }
  return all;
}

function panelJson(dashboard: Dashboard, panel: Panel, id: number, gridPos: object): object {
  return {
    id,
    type: { figure: 'stat', graph: 'timeseries', states: 'state-timeline' }[panel.as ?? 'graph'],
    title: panel.title,
    description: `${panel.shows}\n\n**What to do:** ${panel.act}`,
    datasource: dataSource,
    gridPos,
    fieldConfig: { defaults: defaultsJson(panel), overrides: [] },
    options: optionsJson(panel),
    targets: panel.queries.map((query, at) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + at),
      datasource: dataSource,
      expr: expressionOf(dashboard, query),
      legendFormat: query[0],
      editorMode: 'code',
      range: true,
    })),
  };
}

function defaultsJson({ as, unit, bounds, isStacked, isSigned, words = [] }: Panel): object {
  const isGraph = as === undefined;
  return {
    unit,
    ...(isGraph && isSigned !== true ? { min: 0 } : {}),
    color: { mode: isGraph ? 'palette-classic' : 'thresholds' },
    thresholds: { mode: 'absolute', steps: stepsOf(bounds) },
    mappings: words.map(([value, text, color]) => ({
      type: 'value',
      options: { [value]: { text, color } },
    })),
    ...(isGraph
      ? {
          custom: {
            ...{ lineWidth: 1, showPoints: 'never', fillOpacity: isStacked === true ? 30 : 5 },
            stacking: { mode: isStacked === true ? 'normal' : 'none', group: 'A' },
            thresholdsStyle: { mode: bounds === undefined ? 'off' : 'dashed' },
          },
        }
      : {}),
  };
}

function stepsOf(bounds: Bounds | undefined): object[] {
  const first = (color: string): object => ({ color, value: null });
  if (bounds === undefined) return [first('blue')];
  const { warn, bad, isFloor } = bounds;
  if (isFloor === true) {
    const good = { color: 'green', value: warn ?? bad };
    return [first('red'), ...(warn === undefined ? [] : [{ color: 'yellow', value: bad }]), good];
  }
  return [
    first('green'),
    ...(warn === undefined ? [] : [{ color: 'yellow', value: warn }]),
    { color: 'red', value: bad },
  ];
}

function optionsJson({ as, queries }: Panel): object {
  const legend = { showLegend: true, displayMode: 'list', placement: 'bottom' };
  const tooltip = { mode: 'multi', sort: 'desc' };
  if (as === 'figure') {
    return {
      reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
      colorMode: 'background',
      graphMode: 'none',
      textMode: queries.length > 1 ? 'value_and_name' : 'value',
    };
  }
  if (as === 'states') return { legend, tooltip, mergeValues: true, showValue: 'never' };
  return { legend, tooltip };
}
