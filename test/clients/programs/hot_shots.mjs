import { once } from 'node:events';
import { StatsD } from 'hot-shots';

const options = {
  host: '127.0.0.1',
  port: Number(process.env.STATSD_PORT),
  prefix: 'hot_shots.',
  globalTags: { env: 'prod' },
  errorHandler: (error) => {
    throw error;
  },
};
const closed = (client) => new Promise((resolve) => client.close(resolve));

const buffered = new StatsD({ ...options, maxBufferSize: 1000 });
buffered.increment('hits', 2);
for (let at = 0; at < 5; at += 1) buffered.increment('hits');
buffered.gauge('depth', 12);
buffered.timing('took', 320);
buffered.histogram('took', 310);
buffered.distribution('spread', 5);
buffered.set('users', 'alice');
await closed(buffered);

const byTcp = new StatsD({ ...options, protocol: 'tcp' });
await once(byTcp.socket, 'connect').catch(() => {});
byTcp.increment('by_tcp', 2);
await closed(byTcp);
