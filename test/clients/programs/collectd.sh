# Five seconds of what collectd measures of this machine.
set -euo pipefail
cat > "$CLIENT_FOLDER/collectd.conf" <<CONF
Hostname "here"
FQDNLookup false
Interval 1
BaseDir "$CLIENT_FOLDER"
PIDFile "$CLIENT_FOLDER/pid"
TypesDB "/usr/share/collectd/types.db"
LoadPlugin load
LoadPlugin memory
LoadPlugin cpu
LoadPlugin uptime
LoadPlugin write_graphite
<Plugin write_graphite>
  <Node "tsdb">
    Host "127.0.0.1"
    Port "$CARBON_PORT"
    Protocol "tcp"
    Prefix "collectd."
    EscapeCharacter "_"
    LogSendErrors true
  </Node>
</Plugin>
CONF
timeout -s INT 6 collectd -f -C "$CLIENT_FOLDER/collectd.conf" > "$CLIENT_FOLDER/log" 2>&1 || true
if grep -qi 'error\|failed' "$CLIENT_FOLDER/log"; then
  cat "$CLIENT_FOLDER/log"
  exit 1
fi
