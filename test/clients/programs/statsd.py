import os

import statsd

address = ("127.0.0.1", int(os.environ["STATSD_PORT"]))
client = statsd.StatsClient(*address, prefix="py_statsd")
for _ in range(10):
    client.incr("hits")
client.gauge("depth", 7)
client.gauge("depth", 3, delta=True)
client.timing("took", 320)
client.set("users", "alice")
client.set("users", "bob")
with client.pipeline() as pipeline:
    pipeline.incr("piped", 2)
    pipeline.incr("piped", 3)
by_tcp = statsd.TCPStatsClient(*address, prefix="py_statsd")
by_tcp.incr("by_tcp", 4)
by_tcp.close()
