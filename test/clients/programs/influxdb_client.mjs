import { InfluxDB, Point } from '@influxdata/influxdb-client';

const api = new InfluxDB({ url: process.env.TSDB_URL, token: 't' }).getWriteApi('o', 'b', 'ms', {
  gzipThreshold: 100,
  maxRetries: 0,
});
api.writePoint(new Point('node_influx').tag('host', 'a').floatField('used', 0.5));
for (let at = 0; at < 2000; at += 1) {
  api.writePoint(new Point('node_influx').tag('host', 'a').intField('batched', at));
}
await api.close();
