/** The page at `/`: for somebody who opened the port in a browser, what is here. */
import type { PlainHandler } from './http_api.ts';

export interface FrontPageFacts {
  readonly version: string;
  readonly metricsPort: number;
  readonly metricsPath: string;
}

const links: readonly (readonly [path: string, what: string])[] = [
  ['/health', 'whether the process runs'],
  ['/ready', 'whether it can read and write'],
  ['/routes', 'all paths of the API; docs/HTTP_API.md of the sources describes them'],
  ['/api/v1/services/tsdb/placement', 'which node has which shards'],
  ['/api/v1/services/tsdb/namespace', 'the namespaces'],
  ['/api/v1/labels', 'names of labels of what was written'],
  ['/api/v1/status/tsdb', 'which names and values have the most series'],
];

export const frontPage: PlainHandler<FrontPageFacts> = (facts) => {
  const { version, metricsPort, metricsPath } = facts;
  const items = links.map(([path, what]) => `<li><a href="${path}">${path}</a> ${what}</li>`);
  const body = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>tsdb</title>
<h1>tsdb ${escaped(version)}</h1>
<p>A time series database. Prometheus writes to <code>/api/v1/compat/remote/write</code> and reads
from <code>/api/v1/compat/remote/read</code>; Grafana takes this address as a data source of type
Prometheus.</p>
<ul>
${items.join('\n')}
</ul>
<p>Metrics of this process are on port ${metricsPort}, <code>${escaped(metricsPath)}</code>.</p>
</html>
`;
  return { status: 200, headers: { 'Content-Type': 'text/html; charset=utf-8' }, body };
};

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}
