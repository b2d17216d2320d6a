import os

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource

exporters = {
    "python-proto": HttpExporter(endpoint=os.environ["TSDB_URL"] + "/v1/metrics"),
    "python-grpc": GrpcExporter(
        endpoint="127.0.0.1:" + os.environ["OTLP_GRPC_PORT"], insecure=True
    ),
}
for name, exporter in exporters.items():
    resource = Resource.create(
        {
            "service.namespace": "shop",
            "service.name": name,
            "service.instance.id": "1",
            "team": "metrics",
        }
    )
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
    view = View(instrument_name="size", aggregation=ExponentialBucketHistogramAggregation())
    provider = MeterProvider(resource=resource, metric_readers=[reader], views=[view])
    meter = provider.get_meter("client")
    attributes = {"route": "/a"}
    hits = meter.create_counter("hits")
    hits.add(5, attributes)
    hits.add(2, attributes)
    depth = meter.create_up_down_counter("queue.depth")
    depth.add(5, attributes)
    depth.add(-2, attributes)
    latency = meter.create_histogram(
        "latency", unit="s", explicit_bucket_boundaries_advisory=[0.1, 0.5, 1]
    )
    size = meter.create_histogram("size", unit="By")
    for value in (0.05, 0.3, 2):
        latency.record(value, attributes)
    for value in (100, 200, 4000):
        size.record(value, attributes)
    assert provider.force_flush()
    provider.shutdown()
