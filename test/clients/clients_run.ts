/**
 * Clients of other systems, unmodified, against the single node: each is brought from its registry, a small program uses it, and
 * queries tell whether all of it arrived. Prints a line a client; exits with 1 when one of them failed.
 *
 *     node test/clients/clients_run.ts [--only TEXT]… [--folder FOLDER]
 */
import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { toolOptions } from '../command_line.ts';
import { call, createLocalDatabase, NodeServer } from '../integration/process.ts';
import { freshFolder } from '../load/folder.ts';
import { freePorts } from '../ports.ts';
import type { Addresses, Client } from './client.ts';
import { clients } from './clients.ts';
import { install, type Installed } from './install.ts';

const programMillis = 120_000;
/** Of statsd's flush and of what clients send behind their end. */
const arrivalMillis = 20_000;
const askMillis = 250;

const values = toolOptions(
  `node test/clients/clients_run.ts [options]: clients of others, unmodified, against the single node
  --only TEXT      those whose name contains it (repeatable); all when not given
  --folder FOLDER  where data, settings and logs go`,
  {
    only: { type: 'string', multiple: true, default: [] },
    folder: { type: 'string' },
  },
);

const named = clients.filter(
  ({ name }) => values.only.length === 0 || values.only.some((each) => name.includes(each)),
);
const folder = freshFolder('clients', values.folder);
const server = await started();
let failures = 0;
for (const client of named) {
  const problems = await problemsOf(client);
  failures += problems.length === 0 ? 0 : 1;
  console.log(`${problems.length === 0 ? 'ok    ' : 'FAILED'} ${client.name}`);
  for (const problem of problems) console.log(`       ${problem}`);
}
await server.node.program.stop('SIGKILL');
console.log(`${named.length - failures} of ${named.length} clients; logs: ${folder}`);
process.exit(failures === 0 ? 0 : 1);

async function started(): Promise<{ node: NodeServer; addresses: Addresses }> {
  const [statsd, carbon, pickle, opentsdb, otlp] = (await freePorts(5)).map(String);
  const address = (port: string | undefined): string => `"127.0.0.1:${port}"`;
  const node = await NodeServer.create({
    folder: join(folder, 'node'),
    coordinatorSettings: [
      `statsd: {ingester: {listenAddress: ${address(statsd)}, flushInterval: 1s}}`,
      `carbon: {ingester: {listenAddress: ${address(carbon)}, pickleListenAddress: ${address(pickle)}}}`,
      `opentsdb: {ingester: {listenAddress: ${address(opentsdb)}}}`,
      `otlp: {grpcListenAddress: ${address(otlp)}}`,
      'graphite: {step: 10s}',
    ],
  });
  await node.start();
  await createLocalDatabase(node, 'default');
  const addresses = {
    TSDB_URL: node.url,
    STATSD_PORT: statsd!,
    CARBON_PORT: carbon!,
    CARBON_PICKLE_PORT: pickle!,
    OPENTSDB_PORT: opentsdb!,
    OTLP_GRPC_PORT: otlp!,
  };
  return { node, addresses };
}

async function problemsOf(client: Client): Promise<readonly string[]> {
  let installed: Installed;
  try {
    installed = install(client);
  } catch (error) {
    return [`cannot be had: ${(error as Error).message}`];
  }
  const said = await programProblem(client, installed);
  if (said !== null) return [said];
  const end = performance.now() + arrivalMillis;
  for (;;) {
    const problems = await missing(client);
    if (problems.length === 0 || performance.now() > end) return problems;
    await delay(askMillis);
  }
}

/** Null when it ended with 0. */
async function programProblem(client: Client, installed: Installed): Promise<string | null> {
  const own = join(folder, client.program.replaceAll('.', '_'));
  mkdirSync(own);
  const child = spawn(installed.command, installed.args, {
    cwd: own,
    env: {
      ...process.env,
      ...server.addresses,
      CLIENT_FOLDER: own,
      ...installed.environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: programMillis,
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  const [code, out, errors] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
  return code === 0 ? null : `ended with ${code}: ${(out + errors).trim().slice(-1_000)}`;
}

async function missing({ expected }: Client): Promise<string[]> {
  const problems: string[] = [];
  for (const [query, value] of Object.entries(expected)) {
    const parameters = new URLSearchParams({ query });
    const {
      status,
      text: body,
      json,
    } = await call('GET', `${server.node.url}/api/v1/query?${parameters}`);
    const found = status === 200 ? json.data.result : null;
    const isRight = found?.length === 1 && Number(found[0].value[1]) === value;
    if (!isRight) problems.push(`${query} is not ${value}: ${status} ${body.slice(0, 400)}`);
  }
  return problems;
}
