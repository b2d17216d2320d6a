import os

from influxdb_client import InfluxDBClient, Point
from influxdb_client.client.write_api import SYNCHRONOUS, WriteOptions


def on_error(_, data, error):
    raise RuntimeError(f"{error}: {data[:200]}")


with InfluxDBClient(url=os.environ["TSDB_URL"], token="t", org="o", enable_gzip=True) as client:
    assert client.ping()
    writer = client.write_api(write_options=SYNCHRONOUS)
    point = Point("py_influx").tag("host", "web 1")
    writer.write(
        bucket="b",
        record=point.field("used", 0.5).field("inodes", 12).field("up", True).field("os", "linux"),
    )
    batched = client.write_api(
        write_options=WriteOptions(batch_size=100, flush_interval=100), error_callback=on_error
    )
    for at in range(1000):
        batched.write(bucket="b", record=Point("py_influx").tag("host", "a").field("batched", at))
    batched.close()
