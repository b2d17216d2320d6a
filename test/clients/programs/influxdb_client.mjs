import { InfluxDB, Point } from '@influxdata/influxdb-client';

const api = new InfluxDB({ url: process.env.TSDB_URL, token: 't' }).getWriteApi('o', 'b', 'ms', {
  gzipThreshold: 100,
  maxRetries: 0,
});
api.writePoint(new Point('node_influx').tag('host', 'a').floatField('used', 0.5));
// Batches are sent beside each other: which one has the last word about a time is left to chance.
const first = Date.now() - 2000;
for (let at = 0; at < 2000; at += 1) {
  const point = new Point('node_influx').tag('host', 'a').intField('batched', at);
  api.writePoint(point.timestamp(first + at));
}
await api.close();
