import os
from datadog import initialize, statsd

initialize(
    statsd_host="127.0.0.1",
    statsd_port=int(os.environ["STATSD_PORT"]),
    statsd_constant_tags=["app:a"],
)
statsd.increment("py_datadog.hits", 3, tags=["dc:eu"])
statsd.gauge("py_datadog.depth", 4.5)
statsd.histogram("py_datadog.size", 10)
statsd.histogram("py_datadog.size", 20)
statsd.distribution("py_datadog.spread", 5)
statsd.set("py_datadog.users", "alice")
statsd.set("py_datadog.users", "bob")
statsd.event("deployed", "version 2")
statsd.service_check("alive", 0)
statsd.flush()
