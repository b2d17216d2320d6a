import StatsDClient from 'statsd-client';

const client = new StatsDClient({
  host: '127.0.0.1',
  port: Number(process.env.STATSD_PORT),
  prefix: 'node_statsd',
});
client.counter('hits', 4);
client.increment('hits', 2);
client.gauge('depth', 3);
client.timing('took', new Date());
client.close();
