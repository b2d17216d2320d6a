/**
 * A real Prometheus with remote write and remote read on the single node, and promtool as a client.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { toolOrSkip } from '../tools.ts';
import { freePorts } from '../ports.ts';
import { call, createLocalDatabase, eventually, NodeServer, Program } from './process.ts';

const prometheusBinary = toolOrSkip('prometheus', 'this integration test does not run');
const promtool = toolOrSkip('promtool', 'this integration test does not run');

if (prometheusBinary !== null && promtool !== null) {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-prometheus-'));
  const server = await NodeServer.create({ folder });
  const [port] = (await freePorts(1)) as [number];
  const url = `http://127.0.0.1:${port}`;
  const prometheus = new Program('prometheus', folder, prometheusBinary, [
    `--config.file=${join(folder, 'prometheus.yml')}`,
    `--storage.tsdb.path=${join(folder, 'prometheus')}`,
    `--web.listen-address=127.0.0.1:${port}`,
  ]);
  after(async () => {
    await prometheus.stop('SIGKILL');
    await server.program.stop('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });

  test('Prometheus writes to and reads from the single node', async () => {
    await server.start();
    await createLocalDatabase(server, 'default');
    writeFileSync(
      join(folder, 'prometheus.yml'),
      `global: {scrape_interval: 1s}
remote_write:
- url: ${server.url}/api/v1/compat/remote/write
  send_native_histograms: true
  queue_config: {batch_send_deadline: 500ms}
- url: ${server.url}/api/v1/compat/remote/write
  send_native_histograms: true
  protobuf_message: io.prometheus.write.v2.Request
  queue_config: {batch_send_deadline: 500ms}
  write_relabel_configs:
  - {source_labels: [__name__], regex: up|prometheus_http_request_duration_seconds, action: keep}
  - {source_labels: [__name__], regex: (.*), target_label: __name__, replacement: "\${1}_by_version_2"}
remote_read:
- url: ${server.url}/api/v1/compat/remote/read
  read_recent: true
scrape_configs:
- job_name: tsdb
  static_configs: [{targets: ["127.0.0.1:${server.ports.metrics}"]}]
- job_name: prometheus
  scrape_native_histograms: true
  static_configs: [{targets: ["127.0.0.1:${port}"]}]
- job_name: gone
  static_configs: [{targets: ["127.0.0.1:1"]}]
`,
    );
    prometheus.start();
    const valueOf = async (base: string, query: string) => {
      const answer = await call('GET', `${base}/api/v1/query?query=${encodeURIComponent(query)}`);
      const results = answer.json.data.result as { metric: unknown; value: [number, string] }[];
      return results
        .map(({ metric, value }) => JSON.stringify([metric, value[1]]))
        .sort()
        .join('\n');
    };
    await eventually('both have three targets', async () => {
      const ours = await valueOf(server.url, 'up');
      return ours !== '' && ours === (await valueOf(url, 'up')) && ours.split('\n').length === 3;
    });

    await eventually('version 2 wrote the same', async () => {
      const first = await valueOf(server.url, 'up');
      const second = await valueOf(server.url, 'up_by_version_2');
      return second === first.replaceAll('"__name__":"up"', '"__name__":"up_by_version_2"');
    });

    // At a time of which both have all.
    const histograms = 'prometheus_http_request_duration_seconds';
    const asked = (name: string, time: number) =>
      `sum by (handler) (histogram_count(${name}{handler="/metrics"} @ ${time}))`;
    for (const name of [histograms, `${histograms}_by_version_2`]) {
      await eventually(`native histograms are here, ${name}`, async () => {
        const time = Math.floor(Date.now() / 1000) - 2;
        const ours = await valueOf(server.url, asked(name, time));
        return ours !== '' && ours === (await valueOf(url, asked(histograms, time)));
      });
    }

    const ask = (base: string) =>
      execFileSync(promtool, ['query', 'instant', base, 'up'], { encoding: 'utf8' })
        .split('\n')
        .map((line) => line.replace(/ @\[[^\]]*\]/, ''))
        .sort()
        .join('\n');
    const answer = ask(server.url);
    assert.match(answer, /up\{.*job="tsdb".*\} => 1/);
    assert.match(answer, /up\{.*job="gone".*\} => 0/);
    assert.equal(answer, ask(url));

    const now = Date.now() / 1000;
    await call('POST', `${server.url}/api/v1/json/write`, {
      tags: { __name__: 'only_here', part: 'remote_read' },
      timestamp: now,
      value: 17.5,
    });
    await eventually('Prometheus reads what only we have', async () => {
      return (await valueOf(url, 'only_here')).includes('17.5');
    });
    const range = `query=${encodeURIComponent('sum by (job) (rate(process_cpu_seconds_total[5s]))')}&start=${now - 10}&end=${now}&step=1`;
    const rates = await call('GET', `${server.url}/api/v1/query_range?${range}`);
    assert.equal(rates.status, 200, rates.text);
  });
}
