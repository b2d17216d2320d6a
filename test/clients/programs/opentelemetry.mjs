import { OTLPMetricExporter as GrpcExporter } from '@opentelemetry/exporter-metrics-otlp-grpc';
import { OTLPMetricExporter as JsonExporter } from '@opentelemetry/exporter-metrics-otlp-http';
import { OTLPMetricExporter as ProtoExporter } from '@opentelemetry/exporter-metrics-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  AggregationType,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';

const url = `${process.env.TSDB_URL}/v1/metrics`;
const exporters = {
  'node-proto': new ProtoExporter({ url }),
  'node-json': new JsonExporter({ url: `${process.env.TSDB_URL}/api/v1/otlp/v1/metrics` }),
  'node-grpc': new GrpcExporter({ url: `http://127.0.0.1:${process.env.OTLP_GRPC_PORT}` }),
};

for (const [name, exporter] of Object.entries(exporters)) {
  const provider = new MeterProvider({
    resource: resourceFromAttributes({
      'service.namespace': 'shop',
      'service.name': name,
      'service.instance.id': '1',
      team: 'metrics',
    }),
    readers: [new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })],
    views: [
      {
        instrumentName: 'size',
        aggregation: { type: AggregationType.EXPONENTIAL_HISTOGRAM },
      },
    ],
  });
  const meter = provider.getMeter('client');
  const attributes = { route: '/a' };
  const hits = meter.createCounter('hits');
  hits.add(5, attributes);
  hits.add(2, attributes);
  const depth = meter.createUpDownCounter('queue.depth');
  depth.add(5, attributes);
  depth.add(-2, attributes);
  const latency = meter.createHistogram('latency', {
    unit: 's',
    advice: { explicitBucketBoundaries: [0.1, 0.5, 1] },
  });
  const size = meter.createHistogram('size', { unit: 'By' });
  for (const value of [0.05, 0.3, 2]) latency.record(value, attributes);
  for (const value of [100, 200, 4000]) size.record(value, attributes);
  await provider.forceFlush();
  await provider.shutdown();
}
