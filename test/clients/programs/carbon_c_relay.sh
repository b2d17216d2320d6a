# A line goes to the relay, and by it to the listener of Carbon.
set -euo pipefail
port=$((CARBON_PORT + 1000))
cat > "$CLIENT_FOLDER/relay.conf" <<CONF
listen type linemode 127.0.0.1:$port proto tcp;
cluster tsdb forward 127.0.0.1:$CARBON_PORT;
match * send to tsdb stop;
CONF
carbon-c-relay -f "$CLIENT_FOLDER/relay.conf" > "$CLIENT_FOLDER/log" 2>&1 &
relay=$!
trap 'kill $relay' EXIT
for _ in $(seq 50); do
  if exec 3<> "/dev/tcp/127.0.0.1/$port"; then break; fi 2> /dev/null
  sleep 0.1
done
echo "relayed.web.load 5 $(date +%s)" >&3
exec 3>&-
sleep 3
