/** All clients, by the protocol that they speak. */
import type { Client } from './client.ts';

const statsd: readonly Client[] = [
  {
    name: 'statsd (Python)',
    origin: { kind: 'pip', packages: ['statsd==4.0.1'] },
    program: 'statsd.py',
    expected: {
      py_statsd_hits: 10,
      py_statsd_piped: 5,
      py_statsd_by_tcp: 4,
      py_statsd_depth: 10,
      py_statsd_took_count: 1,
      'max_over_time(py_statsd_users[5m])': 2,
    },
  },
  {
    name: 'datadog (Python, DogStatsD)',
    origin: { kind: 'pip', packages: ['datadog==0.56.0'] },
    program: 'datadog.py',
    expected: {
      'py_datadog_hits{dc="eu",app="a"}': 3,
      'py_datadog_depth{app="a"}': 4.5,
      'py_datadog_size_sum{app="a"}': 30,
      'py_datadog_size_count{app="a"}': 2,
      'py_datadog_spread_count{app="a"}': 1,
      'max_over_time(py_datadog_users{app="a"}[5m])': 2,
    },
  },
  {
    name: 'hot-shots (Node, DogStatsD)',
    origin: { kind: 'npm', packages: ['hot-shots@17.1.1'] },
    program: 'hot_shots.mjs',
    expected: {
      'hot_shots_hits{env="prod"}': 7,
      'hot_shots_by_tcp{env="prod"}': 2,
      'hot_shots_depth{env="prod"}': 12,
      'hot_shots_took_count{env="prod"}': 2,
      'hot_shots_spread_count{env="prod"}': 1,
      'max_over_time(hot_shots_users{env="prod"}[5m])': 1,
    },
  },
  {
    name: 'statsd-client (Node)',
    origin: { kind: 'npm', packages: ['statsd-client@0.4.7'] },
    program: 'statsd_client.mjs',
    expected: { node_statsd_hits: 6, node_statsd_depth: 3, node_statsd_took_count: 1 },
  },
  {
    name: 'datadog-go (DogStatsD, aggregated by the client)',
    origin: { kind: 'go', module: 'github.com/DataDog/datadog-go/v5@v5.9.1' },
    program: 'datadog.go',
    expected: {
      'go_datadog_hits{dc="eu",app="a"}': 100,
      'go_datadog_depth{app="a"}': 2.5,
      'go_datadog_took_count{app="a"}': 50,
      'go_datadog_spread_count{app="a"}': 50,
    },
  },
  {
    name: 'go-statsd-client of cactus',
    origin: { kind: 'go', module: 'github.com/cactus/go-statsd-client/v5@v5.1.0' },
    program: 'cactus_statsd.go',
    expected: { cactus_hits: 3, cactus_depth: 4, cactus_took_count: 1 },
  },
];

/** What programs of OpenTelemetry's SDKs do. */
function recorded(name: string): Readonly<Record<string, number>> {
  const labels = `{job="shop/${name}",route="/a"}`;
  return {
    [`hits_total${labels}`]: 7,
    [`queue_depth${labels}`]: 3,
    [`latency_seconds_count${labels}`]: 3,
    [`latency_seconds_bucket{job="shop/${name}",route="/a",le="0.5"}`]: 2,
    [`histogram_count(size_bytes${labels})`]: 3,
    [`target_info{job="shop/${name}",team="metrics"}`]: 1,
  };
}

const nodeSdk = [
  '@opentelemetry/sdk-metrics@3.1.1',
  '@opentelemetry/resources@3.1.1',
  '@opentelemetry/exporter-metrics-otlp-proto@0.301.0',
  '@opentelemetry/exporter-metrics-otlp-http@0.301.0',
  '@opentelemetry/exporter-metrics-otlp-grpc@0.301.0',
];
const pythonSdk = [
  'opentelemetry-sdk==1.45.2',
  'opentelemetry-exporter-otlp-proto-http==1.45.2',
  'opentelemetry-exporter-otlp-proto-grpc==1.45.2',
];

const otlp: readonly Client[] = [
  {
    name: 'OpenTelemetry SDK (Node): protobuf and JSON over HTTP, gRPC',
    origin: { kind: 'npm', packages: nodeSdk },
    program: 'opentelemetry.mjs',
    expected: { ...recorded('node-proto'), ...recorded('node-json'), ...recorded('node-grpc') },
  },
  {
    name: 'OpenTelemetry SDK (Python): protobuf over HTTP, gRPC',
    origin: { kind: 'pip', packages: pythonSdk },
    program: 'opentelemetry.py',
    expected: { ...recorded('python-proto'), ...recorded('python-grpc') },
  },
];

const influx: readonly Client[] = [
  {
    name: 'influxdb-client (Python, version 2)',
    origin: { kind: 'pip', packages: ['influxdb-client==1.50.0'] },
    program: 'influxdb_client.py',
    expected: {
      'py_influx_used{host="web 1"}': 0.5,
      'py_influx_inodes{host="web 1"}': 12,
      'py_influx_up{host="web 1"}': 1,
      'py_influx_batched{host="a"}': 999,
    },
  },
  {
    name: 'influxdb (Python, version 1)',
    origin: { kind: 'pip', packages: ['influxdb==5.3.2', 'setuptools<80'] },
    program: 'influxdb_v1.py',
    expected: { 'py_influx1_used{host="a"}': 0.5 },
  },
  {
    name: '@influxdata/influxdb-client (Node, version 2, gzip)',
    origin: { kind: 'npm', packages: ['@influxdata/influxdb-client@1.35.0'] },
    program: 'influxdb_client.mjs',
    expected: { 'node_influx_used{host="a"}': 0.5, 'node_influx_batched{host="a"}': 1999 },
  },
];

const telegrafTags = [
  'custom',
  'inputs.file',
  'parsers.influx',
  ...['influxdb', 'influxdb_v2', 'graphite', 'opentsdb', 'datadog', 'opentelemetry', 'http'].map(
    (name) => `outputs.${name}`,
  ),
  'serializers.prometheusremotewrite',
];

const telegraf: readonly Client[] = [
  {
    name: 'Telegraf: influxdb, influxdb_v2, graphite, opentsdb, datadog, opentelemetry, remote write',
    origin: {
      kind: 'go',
      module: 'github.com/influxdata/telegraf@v1.37.2',
      command: { package: 'github.com/influxdata/telegraf/cmd/telegraf', tags: telegrafTags },
    },
    program: 'telegraf.sh',
    expected: {
      'influxdb_disk_used{host="t"}': 4.5,
      'influxdb2_disk_used{host="t"}': 4.5,
      '{__g0__="graphite",__g1__="t",__g2__="disk",__g3__="used"}': 4.5,
      'opentsdb_disk_used{host="t"}': 4.5,
      'datadog_disk_used{host="t"}': 4.5,
      'otel_disk_used{host="t"}': 4.5,
      'remote_disk_used{host="t"}': 4.5,
    },
  },
];

const graphite: readonly Client[] = [
  {
    name: 'graphite-web as it reads from a cluster server, and its tag database',
    origin: { kind: 'pip', packages: ['graphite-web==1.1.10', 'msgpack<1', 'setuptools<80'] },
    program: 'graphite_web.py',
    expected: {},
  },
  {
    name: "Debian's collectd, write_graphite by TCP",
    origin: { kind: 'system', programs: ['collectd'] },
    program: 'collectd.sh',
    expected: {
      'count({__g0__="collectd"}) > bool 0': 1,
      'count(count by (__g2__) ({__g0__="collectd"})) > bool 2': 1,
    },
  },
  {
    name: "Debian's carbon-c-relay",
    origin: { kind: 'system', programs: ['carbon-c-relay'] },
    program: 'carbon_c_relay.sh',
    expected: { '{__g0__="relayed",__g1__="web",__g2__="load"}': 5 },
  },
];

export const clients: readonly Client[] = [...statsd, ...otlp, ...influx, ...telegraf, ...graphite];
