# Telegraf, once, with an output a protocol; each puts its name before those of the metrics.
set -euo pipefail
cat > "$CLIENT_FOLDER/metrics.influx" <<'LINES'
disk,host=t used=4.5,free=1i
LINES
cat > "$CLIENT_FOLDER/telegraf.conf" <<CONF
[agent]
  omit_hostname = true
[[inputs.file]]
  files = ["$CLIENT_FOLDER/metrics.influx"]
  data_format = "influx"
[[outputs.influxdb]]
  urls = ["$TSDB_URL"]
  name_prefix = "influxdb_"
[[outputs.influxdb_v2]]
  urls = ["$TSDB_URL"]
  token = "t"
  organization = "o"
  bucket = "b"
  name_prefix = "influxdb2_"
[[outputs.graphite]]
  servers = ["127.0.0.1:$CARBON_PORT"]
  prefix = "graphite"
  template = "host.measurement.field"
[[outputs.opentsdb]]
  host = "http://127.0.0.1"
  port = ${TSDB_URL##*:}
  http_batch_size = 50
  prefix = "opentsdb_"
[[outputs.datadog]]
  apikey = "k"
  url = "$TSDB_URL/datadog/api/v1/series"
  name_prefix = "datadog_"
[[outputs.opentelemetry]]
  service_address = "127.0.0.1:$OTLP_GRPC_PORT"
  name_prefix = "otel_"
[[outputs.http]]
  url = "$TSDB_URL/api/v1/compat/remote/write"
  data_format = "prometheusremotewrite"
  name_prefix = "remote_"
  [outputs.http.headers]
    Content-Type = "application/x-protobuf"
    Content-Encoding = "snappy"
    X-Prometheus-Remote-Write-Version = "0.1.0"
CONF
telegraf --once --config "$CLIENT_FOLDER/telegraf.conf" 2>&1 | tee "$CLIENT_FOLDER/log"
if grep -q ' E! ' "$CLIENT_FOLDER/log"; then exit 1; fi
