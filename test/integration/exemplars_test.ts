/**
 * A real Prometheus that scrapes exemplars and metadata and sends both, by either version of remote write: the single node
 * answers what it answers, also after a kill.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { toolOrSkip } from '../tools.ts';
import { freePorts } from '../ports.ts';
import { call, createLocalDatabase, eventually, NodeServer, Program } from './process.ts';

const prometheusBinary = toolOrSkip('prometheus', 'this integration test does not run');

/** What a client library of OpenMetrics shows: exemplars of a counter and of buckets, those of the second without a time. */
function openMetrics(scrape: number): string {
  const seconds = Date.now() / 1000;
  const trace = `{trace_id="t${scrape}",span_id="ä"}`;
  return `# TYPE orders counter
# HELP orders Orders that were \\"taken\\",\\nall of them.
orders_total{shop="a"} ${scrape} # ${trace} 1 ${seconds.toFixed(3)}
orders_total{shop="b"} ${scrape} # {} 0.5 ${(seconds - 1).toFixed(3)}
# TYPE wait_seconds histogram
# UNIT wait_seconds seconds
# HELP wait_seconds How long they waited.
wait_seconds_bucket{le="0.5"} ${scrape} # ${trace} 0.25
wait_seconds_bucket{le="+Inf"} ${2 * scrape} # {trace_id="slow${scrape}"} 1e6 ${seconds.toFixed(3)}
wait_seconds_count ${2 * scrape}
wait_seconds_sum ${scrape * 1.5}
# TYPE queue gauge
# HELP queue Who waits.
queue 3
# EOF
`;
}

if (prometheusBinary !== null) {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-exemplars-'));
  const server = await NodeServer.create({ folder });
  const [port] = (await freePorts(1)) as [number];
  const url = `http://127.0.0.1:${port}`;
  let scrapes = 0;
  const target = createServer((_, response) => {
    scrapes += 1;
    response.writeHead(200, {
      'Content-Type': 'application/openmetrics-text; version=1.0.0; charset=utf-8',
    });
    response.end(openMetrics(scrapes));
  });
  await new Promise<void>((resolve) => void target.listen(0, '127.0.0.1', resolve));
  const prometheus = new Program('prometheus', folder, prometheusBinary, [
    `--config.file=${join(folder, 'prometheus.yml')}`,
    `--storage.tsdb.path=${join(folder, 'prometheus')}`,
    `--web.listen-address=127.0.0.1:${port}`,
    '--enable-feature=exemplar-storage',
  ]);
  after(async () => {
    target.closeAllConnections();
    target.close();
    await prometheus.stop('SIGKILL');
    await server.program.stop('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });

  const answerOf = async (base: string, path: string): Promise<string> =>
    (await call('GET', `${base}${path}`)).text.trim();
  /** Up to a time of which both have all. */
  const exemplarsPath = (query: string, endSeconds: number): string =>
    `/api/v1/query_exemplars?query=${encodeURIComponent(query)}&start=0&end=${endSeconds}`;
  const families = ['orders', 'wait_seconds', 'queue'];

  test('what Prometheus scrapes of exemplars and metadata is answered as it answers', async () => {
    await server.start();
    await createLocalDatabase(server, 'default');
    const write = `${server.url}/api/v1/compat/remote/write`;
    writeFileSync(
      join(folder, 'prometheus.yml'),
      `global: {scrape_interval: 1s}
remote_write:
- url: ${write}
  send_exemplars: true
  metadata_config: {send: true, send_interval: 1s}
  queue_config: {batch_send_deadline: 200ms}
- url: ${write}
  send_exemplars: true
  protobuf_message: io.prometheus.write.v2.Request
  queue_config: {batch_send_deadline: 200ms}
scrape_configs:
- job_name: shop
  static_configs: [{targets: ["127.0.0.1:${(target.address() as AddressInfo).port}"]}]
`,
    );
    prometheus.start();
    const ready = () => answerOf(server.url, exemplarsPath('orders_total', 1e10));
    await eventually('the first exemplars are here', async () =>
      (await ready()).includes('trace_id'),
    );
    // The first ones may have come before their namespace was there.
    const since = Date.now() / 1000;
    await eventually('more was scraped', async () => scrapes > 6);
    for (const query of [
      'orders_total',
      'histogram_quantile(0.9, sum by (le) (rate(wait_seconds_bucket[1m])))',
      'orders_total{shop="a"} or wait_seconds_bucket{le="+Inf"} > 5',
      '{shop!=""}',
      'queue',
    ]) {
      await eventually(`the same exemplars: ${query}`, async () => {
        const end = Math.floor(Date.now() / 1000) - 2;
        if (end < since + 3) return false;
        const path = exemplarsPath(query, end).replace('start=0', `start=${since}`);
        const ours = await answerOf(server.url, path);
        return ours === (await answerOf(url, path));
      });
    }
    for (const path of [
      '/api/v1/query_exemplars?query=orders_total&start=5&end=1',
      '/api/v1/query_exemplars?query=orders_total&start=x',
      '/api/v1/query_exemplars?query=1',
      '/api/v1/query_exemplars?query=sum(',
      '/api/v1/query_exemplars',
      '/api/v1/query_exemplars?query=nothing',
      '/api/v1/metadata?limit=x',
      '/api/v1/metadata?limit_per_metric=1.5',
      '/api/v1/metadata?metric=nothing',
      '/api/v1/metadata?limit=0',
      '/api/v1/targets/metadata?limit=x',
      ...families.map((name) => `/api/v1/metadata?metric=${name}`),
    ]) {
      await eventually(`the same answer: ${path}`, async () => {
        return (await answerOf(server.url, path)) === (await answerOf(url, path));
      });
    }
  });

  test('a kill loses no exemplar and no metadata', async () => {
    await prometheus.stop('SIGKILL');
    const path = exemplarsPath('{__name__=~".+"}', 1e10);
    const before = await answerOf(server.url, path);
    assert.match(before, /"trace_id":"t\d+"/);
    const metadata = await answerOf(server.url, '/api/v1/metadata');
    await server.program.stop('SIGKILL');
    await server.start();
    await eventually('it answers again', async () => (await answerOf(server.url, path)) === before);
    assert.equal(await answerOf(server.url, '/api/v1/metadata'), metadata);
  });

  test('a companion that was deleted is made again', async () => {
    const deleted = await call('DELETE', `${server.url}/api/v1/services/tsdb/namespace/_exemplars`);
    assert.equal(deleted.status, 200, deleted.text);
    const path = exemplarsPath('{__name__=~".+"}', 1e10);
    await eventually('it is empty', async () =>
      (await answerOf(server.url, path)).includes('"data":[]'),
    );
    prometheus.start();
    await eventually('exemplars are here again', async () =>
      (await answerOf(server.url, path)).includes('trace_id'),
    );
  });
}
