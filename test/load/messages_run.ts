/**
 * Telemetry of devices as protobuf messages, through a node process: CPU time to take and to give a million, memory, bytes
 * on disk; with `--kills` the process is killed meanwhile and its schema changed twice, and every row is compared.
 * Prints one JSON line.
 *
 *     node test/load/messages_run.ts [--devices 1000] [--rows 1000] [--kills 0] [--keep]
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { call, NodeServer } from '../integration/process.ts';
import { bytesOf, freshFolder } from './folder.ts';
import { MessagesLoad, messagesNamespace } from './messages_load.ts';
import { ProcessUsage } from './process_usage.ts';

const { values } = parseArgs({
  options: {
    devices: { type: 'string', default: '1000' },
    rows: { type: 'string', default: '1000' },
    kills: { type: 'string', default: '0' },
    keep: { type: 'boolean', default: false },
  },
});
const shape = { devices: Number(values.devices), rowsPerDevice: Number(values.rows) };
const kills = Number(values.kills);
const messages = shape.devices * shape.rowsPerDevice;

const folder = freshFolder('messages');
const server = await NodeServer.create({ folder });
const usage = new ProcessUsage();
const looks = setInterval(() => usage.look('node', server.program.pid), 200);
const cpuSeconds = (): number => {
  usage.look('node', server.program.pid);
  return usage.all().get('node')!.cpuSeconds;
};
try {
  await server.start();
  using load = new MessagesLoad(server, shape, Date.now());
  await load.create();
  const before = cpuSeconds();
  const stretches = 2 * kills + 1;
  for (let i = 0; i < stretches; i++) {
    const [first, past] = [i, i + 1].map((part) =>
      Math.floor((part * shape.rowsPerDevice) / stretches),
    );
    const killed = i % 2 === 1 ? load.kill() : null;
    await load.write(first!, past!);
    await killed;
    if (kills > 0 && (i === Math.floor(stretches / 3) || i === Math.floor((2 * stretches) / 3))) {
      await load.deploy();
    }
  }
  const taken = cpuSeconds();
  await call('POST', `http://127.0.0.1:${server.ports.httpNode}/flush`, {}, 600_000);
  const flushed = cpuSeconds();
  const fileBytes = bytesOf(join(folder, 'data/data', messagesNamespace));
  const compared = await load.check();
  const given = cpuSeconds();
  const ofField = 'avg(avg_over_time(telemetry{__field__="temperature"}[3h]))';
  const begin = performance.now();
  const answer = await call(
    'GET',
    `${server.url}/api/v1/query?query=${encodeURIComponent(ofField)}`,
  );
  const queryMillis = performance.now() - begin;
  const queried = cpuSeconds();
  const perMillion = (seconds: number): number => Number(((seconds * 1e6) / messages).toFixed(3));
  console.log(
    JSON.stringify({
      ...shape,
      kills,
      schemas: load.layouts.length,
      retries: load.retries,
      compared,
      bytesPerMessage: Number((fileBytes / messages).toFixed(2)),
      cpuSecondsPerMillion: {
        taken: perMillion(taken - before),
        flushed: perMillion(flushed - taken),
        given: perMillion(given - flushed),
        oneFieldQueried: perMillion(queried - given),
      },
      queryMillis: Math.round(queryMillis),
      queryValue: answer.json?.data?.result?.[0]?.value?.[1],
      rssMaxMiB: Math.round(usage.all().get('node')!.rssMaxBytes / 2 ** 20),
    }),
  );
} finally {
  clearInterval(looks);
  await server.program.stop('SIGKILL');
  if (!values.keep) rmSync(folder, { recursive: true, force: true });
}
