import os
from urllib.parse import urlsplit

from influxdb import InfluxDBClient

url = urlsplit(os.environ["TSDB_URL"])
client = InfluxDBClient(host=url.hostname, port=url.port, database="db")
client.ping()
client.create_database("db")
point = {"measurement": "py_influx1", "tags": {"host": "a"}, "fields": {"used": 0.5}}
assert client.write_points([point])
