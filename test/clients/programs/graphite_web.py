"""graphite-web with this server as its only cluster server, and as its tag database."""

import os
import socket
import time

port = int(os.environ["CARBON_PORT"])
end = int(time.time()) // 10 * 10
lines = []
for at in range(30):
    moment = end - 300 + 10 * at
    lines.append(f"remote.h1.load {at} {moment}\nremote.h2.load 5 {moment}\n")
    lines.append(f"remote.used;host=h1;dc=eu {at} {moment}\n")
with socket.create_connection(("127.0.0.1", port)) as connection:
    connection.sendall("".join(lines).encode())

folder = os.environ["CLIENT_FOLDER"]
server = os.environ["TSDB_URL"].removeprefix("http://")
with open(os.path.join(folder, "client_settings.py"), "w") as file:
    file.write(
        f"""
from graphite.settings import *
SECRET_KEY = "k"
STORAGE_DIR = WHISPER_DIR = LOG_DIR = INDEX_FILE = {folder!r}
CLUSTER_SERVERS = [CLUSTER_SERVER]
TAGDB = "graphite.tags.http.HttpTagDB"
TAGDB_HTTP_URL = "http://{server}"
STORAGE_FINDERS = ["graphite.finders.remote.RemoteFinder"]
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}}}
""".replace("CLUSTER_SERVER]", repr(server + os.environ.get("FORMAT", "")) + "]")
    )
import sys

sys.path.insert(0, folder)
os.environ["DJANGO_SETTINGS_MODULE"] = "client_settings"
import django

django.setup()
from graphite.render.evaluator import evaluateTarget
from graphite.storage import STORE


def evaluated(target):
    from datetime import datetime, timezone

    context = {
        "startTime": datetime.fromtimestamp(end - 300, timezone.utc),
        "endTime": datetime.fromtimestamp(end, timezone.utc),
        "now": datetime.fromtimestamp(end, timezone.utc),
        "tzinfo": timezone.utc,
        "template": None,
        "localOnly": False,
        "maxDataPoints": None,
        "xFilesFactor": 0,
        "requestContext": None,
        "data": [],
        "prefetched": {},
    }
    return evaluateTarget(context, target)


deadline = time.time() + 30
while True:
    found = sorted(node.path for node in STORE.find("remote.*.load"))
    if found == ["remote.h1.load", "remote.h2.load"] or time.time() > deadline:
        break
    time.sleep(0.5)
assert found == ["remote.h1.load", "remote.h2.load"], found
[total] = evaluated("sumSeries(remote.*.load)")
values = [value for value in total if value is not None]
assert 5 + 29 in values, values
[tagged] = evaluated("seriesByTag('name=remote.used','dc=eu')")
assert 29 in list(tagged), list(tagged)
assert STORE.tagdb.list_values("dc"), "values of a tag"
assert STORE.tagdb.auto_complete_values(["name=remote.used"], "host") == ["h1"]
